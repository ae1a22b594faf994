"""How much fetching a model would take, and how much the cache may hold of ours.

Takes references and sizes, gives sizes and what was forgotten. Must not know tensors. Only models
of ours are counted and forgotten: the cache belongs to other libraries, too.
"""

import logging

from huggingface_hub import CachedRepoInfo, CacheNotFound, constants, scan_cache_dir

from hubnmt.checkpoint import LIBRARY
from hubnmt.errors import HubError
from hubnmt.hub.client import connect, plain_words
from hubnmt.hub.contents import WEIGHTS, choose_files
from hubnmt.hub.listing import list_cached
from hubnmt.hub.pull import ask
from hubnmt.hub.reference import HubReference

logger = logging.getLogger(__name__)


def download_size(reference: HubReference, *, token: str | None = None) -> int:
    """Ask the Hub for the bytes of a model's files, before any of them is fetched.

    Raises:
        HubError: if it has no such model, does not say how large a file is, or cannot be reached.
    """
    with plain_words(str(reference)):
        info = ask(connect(token), reference)
        sizes = {sibling.rfilename: sibling.size for sibling in info.siblings or []}
        library = None if LIBRARY in (info.tags or []) else info.library_name
        names = choose_files(sizes, target=str(reference), library=library)
    unknown = [name for name in names if sizes[name] is None]
    if unknown:
        raise HubError(f"{reference}: the Hub does not state the size of {' and '.join(unknown)}")
    return sum(size for name in names if (size := sizes[name]) is not None)


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
    """Say when the weights were read last; configs are read by whoever lists the cache."""
    files = (file for revision in repo.revisions for file in revision.files)
    read = (file.blob_last_accessed for file in files if file.file_name == WEIGHTS)
    return max(read, default=0.0)
