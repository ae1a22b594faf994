"""List bundled, cached and Hub models by their metadata, and evict cached models (LRU).

Pages of the Hub are requested lazily. Only hubnmt models are evicted, because other libraries share
the cache.
"""

import contextlib
import dataclasses
import itertools
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import CachedRepoInfo, CacheNotFound, constants, scan_cache_dir

from hubnmt.checkpoint.description import LIBRARY, bundled_models, load_config, read_card
from hubnmt.checkpoint.metadata import Score, read_languages, read_metadata, read_scores
from hubnmt.config import ModelConfig
from hubnmt.errors import HubNMTError
from hubnmt.hub.cache import find_complete
from hubnmt.hub.client import MAX_SIZE, connect, endpoint, read_pages, readable_errors
from hubnmt.hub.files import ALLOWED, WEIGHTS
from hubnmt.hub.reference import COMMIT, HubReference, parse_reference

logger = logging.getLogger(__name__)

DTYPE_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2}
FACTS = [
    "author",
    "cardData",
    "lastModified",
    "model-index",
    "private",
    "safetensors",
    "sha",
    "tags",
]
"""Fields requested for each model."""

FRESH_S = 60.0
"""How long a page is cached."""
MAX_PAGES = 64
PAGE_SIZE = 100
"""Models per request."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ListedModel:
    """Metadata of a model; None or empty if unknown."""

    name: str
    """Name for `from_pretrained`."""
    source: Literal["bundled", "cached", "hub"]
    src_lang: str = ""
    tgt_lang: str = ""
    scores: tuple[Score, ...] = ()
    """From the card, the first of each metric."""
    size_bytes: int | None = None
    """Size of the weights (Hub) or of the whole folder (local)."""
    n_parameters: int | None = None
    commit: str = ""
    is_private: bool = False


def list_bundled(*, search: str = "") -> list[ListedModel]:
    """List the models bundled with the package."""
    models = bundled_models().items()
    return [
        _from_folder(name, folder, "bundled")
        for name, folder in models
        if search.lower() in name.lower()
    ]


def list_cached(*, author: str = "", search: str = "") -> list[ListedModel]:
    """List the complete hubnmt models in the cache of `huggingface_hub`, newest first.

    They are recognised by their config; weights are not read.
    """
    try:
        repos = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:
        return []
    listed = []
    for repo in sorted(repos, key=lambda repo: -repo.last_modified):
        if repo.repo_type != "model" or not _is_wanted(repo.repo_id, author, search):
            continue
        for revision in sorted(repo.revisions, key=lambda revision: -revision.last_modified):
            reference = HubReference(repo.repo_id, min(revision.refs, default=revision.commit_hash))
            if (found := _describe_cached(reference)) is not None:
                listed.append(found)
    return listed


def _is_wanted(name: str, author: str, search: str) -> bool:
    owner = name.partition("/")[0]
    return (not author or owner.lower() == author.lower()) and search.lower() in name.lower()


def _describe_cached(reference: HubReference) -> ListedModel | None:
    """Describe a cached repository if it is a complete hubnmt model."""
    try:
        folder = find_complete(reference)
        if folder is None:
            return None
        return dataclasses.replace(
            _from_folder(str(reference), folder, "cached"), commit=folder.name
        )
    except HubNMTError:  # a model of another library
        return None


def _from_folder(name: str, folder: Path, source: Literal["bundled", "cached"]) -> ListedModel:
    config: ModelConfig = load_config(folder)
    files = [folder / name for name in ALLOWED if (folder / name).is_file()]
    return ListedModel(
        name=name,
        source=source,
        src_lang=config.src_lang,
        tgt_lang=config.tgt_lang,
        scores=read_scores(read_metadata(read_card(folder))),
        size_bytes=sum(file.stat().st_size for file in files),
        n_parameters=config.n_parameters,
    )


def list_hub(*, author: str = "", search: str = "") -> Iterator[ListedModel]:
    """List the models on the Hub that are tagged `hubnmt`, last modified first.

    Pages are requested lazily.

    Raises:
        HubError: if the Hub refuses or cannot be reached.
    """
    api = connect()
    wanted = {"author": author, "search": search}
    query = {
        "filter": LIBRARY,
        "sort": "lastModified",
        "limit": PAGE_SIZE,
        "expand": FACTS,
        **{name: text for name, text in wanted.items() if text},
    }
    with readable_errors("the list of models"):
        for rows in read_pages(api, "/api/models", query):
            yield from filter(None, map(_from_row, rows))


def _from_row(row: Any) -> ListedModel | None:
    """Parse one model of a list; None if its name is invalid.

    The client's own parser raises on some cards, so one invalid card would break the whole list.
    """
    name = row.get("id") if isinstance(row, dict) else None
    if not isinstance(name, str) or "@" in name or parse_reference(name) is None:
        return None
    metadata = _table(row, "cardData")
    if row.get("model-index"):  # the Hub returns it separately
        metadata["model-index"] = row["model-index"]
    languages = (*read_languages(metadata), "", "")
    weights = _table(row, "safetensors")
    counts = _table(weights, "parameters")
    known = counts and all(kind in DTYPE_BYTES and _is_count(n) for kind, n in counts.items())
    total, commit = weights.get("total"), row.get("sha")
    return ListedModel(
        name=name,
        source="hub",
        src_lang=languages[0],
        tgt_lang=languages[1],
        scores=read_scores(metadata),
        size_bytes=sum(n * DTYPE_BYTES[kind] for kind, n in counts.items()) if known else None,
        n_parameters=total if _is_count(total) else None,
        commit=commit if isinstance(commit, str) and COMMIT.fullmatch(commit) else "",
        is_private=row.get("private") is True,
    )


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < MAX_SIZE


def _table(values: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the dictionary under a key; empty if the value is of another type."""
    found = values.get(key)
    return dict(found) if isinstance(found, dict) else {}


class Catalogue:
    """Short-lived, thread-safe cache of pages of the Hub's model list, shared by the process."""

    def __init__(
        self, *, fresh_s: float = FRESH_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Create an empty cache.

        Args:
            fresh_s: lifetime of a page, seconds.
            clock: monotonic clock, seconds.
        """
        self._fresh_s, self._clock = fresh_s, clock
        self._pages: OrderedDict[tuple[str, ...], tuple[float, list[ListedModel]]] = OrderedDict()
        self._lock = threading.Lock()

    def page(self, *, author: str = "", search: str = "", size: int = 20) -> list[ListedModel]:
        """Return the first models of the list.

        Raises:
            HubError: if the Hub refuses or cannot be reached.
        """
        key = (endpoint(), author, search, str(size))
        now = self._clock()
        with self._lock:
            until, models = self._pages.get(key, (now, []))
            if until > now:
                return models
        models = list(itertools.islice(list_hub(author=author, search=search), size))
        with self._lock:
            self._pages[key] = (now + self._fresh_s, models)
            self._pages.move_to_end(key)
            while len(self._pages) > MAX_PAGES:
                self._pages.popitem(last=False)
        return models


# --- cache eviction ---


def touch(folder: Path) -> None:
    """Record the use of a cached model.

    Reading its files does not: most file systems update access times daily (relatime) or never
    (noatime).
    """
    weights = folder / WEIGHTS
    with contextlib.suppress(OSError):  # a read-only cache is not evicted either
        os.utime(weights, ns=(time.time_ns(), weights.stat().st_mtime_ns))


def evict_lru(limit: int) -> tuple[str, ...]:
    """Evict least recently used hubnmt models from the cache until they fit.

    The most recently used one is always kept.

    Args:
        limit: size limit, bytes.

    Returns:
        the evicted repositories.
    """
    names = {model.name.partition("@")[0] for model in list_cached()}
    try:
        cache = scan_cache_dir(constants.HF_HUB_CACHE)
    except CacheNotFound:
        return ()
    repos = [each for each in cache.repos if each.repo_type == "model" and each.repo_id in names]
    repos.sort(key=_last_used)
    total, evicted = sum(repo.size_on_disk for repo in repos), []
    for repo in repos[:-1]:
        if total <= limit:
            break
        cache.delete_revisions(*(each.commit_hash for each in repo.revisions)).execute()
        total -= repo.size_on_disk
        evicted.append(repo.repo_id)
        logger.info("evicted %s from the cache", repo.repo_id)
    return tuple(evicted)


def _last_used(repo: CachedRepoInfo) -> float:
    """Return the access time of the weights; listing the cache changes that of the config."""
    files = (file for revision in repo.revisions for file in revision.files)
    read = (file.blob_last_accessed for file in files if file.file_name == WEIGHTS)
    return max(read, default=0.0)
