"""Lists of models in the package, in the cache and on the Hub; and what the cache may hold.

All that is listed is metadata: no weights are fetched. The Hub answers in pages, and the next one
is asked for when somebody reads that far. Only models of ours are removed from the cache, which
belongs to other libraries, too.
"""

import contextlib
import dataclasses
import hashlib
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

from hubnmt.checkpoint.folder import LIBRARY, bundled_models, load_config, read_card
from hubnmt.checkpoint.metadata import Score, read_languages, read_metadata, read_scores
from hubnmt.config import ModelConfig
from hubnmt.errors import HubNMTError
from hubnmt.hub.client import MAX_SIZE, connect, endpoint, plain_words, read_pages
from hubnmt.hub.pull import ALLOWED, WEIGHTS, find_whole
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
"""What the Hub is asked to tell of each model."""

FRESH_S = 60.0
"""A page shown again within this time is not asked for again."""
MAX_PAGES = 64
PAGE_SIZE = 100
"""Models in one answer of the Hub."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ListedModel:
    """What can be said of a model without opening it; None and empty: nobody said."""

    name: str
    """As `from_pretrained` takes it."""
    source: Literal["bundled", "cached", "hub"]
    src_lang: str = ""
    tgt_lang: str = ""
    scores: tuple[Score, ...] = ()
    """From the card, the first of each metric."""
    size_bytes: int | None = None
    """Of the weights on the Hub, of the whole folder on this machine."""
    n_parameters: int | None = None
    commit: str = ""
    is_private: bool = False


def list_bundled(*, search: str = "") -> list[ListedModel]:
    """List the models that travel inside the package."""
    models = bundled_models().items()
    return [
        _from_folder(name, folder, "bundled")
        for name, folder in models
        if search.lower() in name.lower()
    ]


def list_cached(*, author: str = "", search: str = "") -> list[ListedModel]:
    """List the models of ours in the cache of `huggingface_hub` that are whole, newest first.

    They are known by their config: weights, which other libraries keep there too, are not read.
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
            if (found := _find_ours(reference)) is not None:
                listed.append(found)
    return listed


def _is_wanted(name: str, author: str, search: str) -> bool:
    owner = name.partition("/")[0]
    return (not author or owner.lower() == author.lower()) and search.lower() in name.lower()


def _find_ours(reference: HubReference) -> ListedModel | None:
    """Describe a cached repository, if it is a whole model of ours."""
    try:
        folder = find_whole(reference)
        if folder is None:
            return None
        return dataclasses.replace(
            _from_folder(str(reference), folder, "cached"), commit=folder.name
        )
    except HubNMTError:  # another library's
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


def list_hub(
    *, author: str = "", search: str = "", token: str | None = None
) -> Iterator[ListedModel]:
    """List the models on the Hub that are tagged `hubnmt`; the last changed first.

    Pages are fetched as the iterator is read.

    Raises:
        HubError: if the Hub refuses or cannot be reached.
    """
    api = connect(token)
    wanted = {"author": author, "search": search}
    query = {
        "filter": LIBRARY,
        "sort": "lastModified",
        "limit": PAGE_SIZE,
        "expand": FACTS,
        **{name: text for name, text in wanted.items() if text},
    }
    with plain_words("the list of models"):
        for rows in read_pages(api, "/api/models", query):
            yield from filter(None, map(_from_row, rows))


def _from_row(row: Any) -> ListedModel | None:
    """Read one model of a list; None if it cannot be named.

    The client's own reading fails on some cards, and one stranger's card would spoil the list.
    """
    name = row.get("id") if isinstance(row, dict) else None
    if not isinstance(name, str) or "@" in name or parse_reference(name) is None:
        return None
    metadata = _table(row, "cardData")
    if row.get("model-index"):  # the Hub gives it apart as well
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
    """Return the table under a key; an empty one if something else is there."""
    found = values.get(key)
    return dict(found) if isinstance(found, dict) else {}


class Catalogue:
    """Pages of the Hub's list, kept for a short while: a page that many look at asks once.

    One for the whole process; safe to share between threads.
    """

    def __init__(
        self, *, fresh_s: float = FRESH_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with nothing.

        Args:
            fresh_s: how long an answer is good for.
            clock: seconds, going up.
        """
        self._fresh_s, self._clock = fresh_s, clock
        self._pages: OrderedDict[tuple[str, ...], tuple[float, list[ListedModel]]] = OrderedDict()
        self._lock = threading.Lock()

    def page(
        self,
        *,
        author: str = "",
        search: str = "",
        size: int = 20,
        number: int = 0,
        token: str | None = None,
    ) -> list[ListedModel]:
        """Return one page of the list, counted from 0; an empty one is behind the end.

        Raises:
            HubError: if the Hub refuses or cannot be reached.
        """
        whose = hashlib.sha256((token or "").encode()).hexdigest()
        key = (endpoint(), whose, author, search, str(size), str(number))
        now = self._clock()
        with self._lock:
            until, models = self._pages.get(key, (now, []))
            if until > now:
                return models
        found = list_hub(author=author, search=search, token=token)
        models = list(itertools.islice(found, number * size, (number + 1) * size))
        with self._lock:
            self._pages[key] = (now + self._fresh_s, models)
            self._pages.move_to_end(key)
            while len(self._pages) > MAX_PAGES:
                self._pages.popitem(last=False)
        return models


# --- how much the cache may hold of ours ---


def touch(folder: Path) -> None:
    """Note that a model in the cache is used now.

    FoldedCrossAttention does not: most file systems note that once a day (relatime) or never (noatime).
    """
    weights = folder / WEIGHTS
    with contextlib.suppress(OSError):  # a cache that cannot be written is not tidied either
        os.utime(weights, ns=(time.time_ns(), weights.stat().st_mtime_ns))


def evict_lru(limit: int) -> tuple[str, ...]:
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
