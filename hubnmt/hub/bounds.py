"""How much the cache may hold of ours.

Takes a size, gives what was forgotten to keep to it. Must not know tensors. Only models
of ours are counted and forgotten: the cache belongs to other libraries, too.
"""

import contextlib
import logging
import os
import time
from pathlib import Path

from huggingface_hub import CachedRepoInfo, CacheNotFound, constants, scan_cache_dir

from hubnmt.hub.contents import WEIGHTS
from hubnmt.hub.listing import list_cached

logger = logging.getLogger(__name__)


def note_use(folder: Path) -> None:
    """Note that a model in the cache is used now.

    Reading does not: most file systems note that once a day (relatime) or never (noatime).
    """
    weights = folder / WEIGHTS
    with contextlib.suppress(OSError):  # a cache that cannot be written is not tidied either
        os.utime(weights, ns=(time.time_ns(), weights.stat().st_mtime_ns))


def forget_oldest(limit: int) -> tuple[str, ...]:
    """Take models of ours out of the cache until they fit, those first that were used longest ago.

    The one used last stays, whatever its size.

    Args:
        limit: bytes.

    Returns:
        the repositories that were forgotten.
    """
    ours = {model.name.partition("@")[0] for model in list_cached()}
    try:
        cache = scan_cache_dir(constants.HF_HUB_CACHE)
    except CacheNotFound:
        return ()
    repos = [each for each in cache.repos if each.repo_type == "model" and each.repo_id in ours]
    repos.sort(key=_last_used)
    left, gone = sum(repo.size_on_disk for repo in repos), []
    for repo in repos[:-1]:
        if left <= limit:
            break
        cache.delete_revisions(*(each.commit_hash for each in repo.revisions)).execute()
        left -= repo.size_on_disk
        gone.append(repo.repo_id)
        logger.info("%s was forgotten to make room in the cache", repo.repo_id)
    return tuple(gone)


def _last_used(repo: CachedRepoInfo) -> float:
    """Say when the weights were used last; configs are read by whoever lists the cache."""
    files = (file for revision in repo.revisions for file in revision.files)
    read = (file.blob_last_accessed for file in files if file.file_name == WEIGHTS)
    return max(read, default=0.0)
