"""List bundled, cached and Hub models by their metadata, and evict cached models (LRU)."""

import dataclasses
import itertools
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

from huggingface_hub import CachedRepoInfo, CacheNotFound, constants, get_session, scan_cache_dir
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented, not marked so
    build_hf_headers,
    hf_raise_for_status,
)

from hubnmt.checkpoint.description import LIBRARY, bundled_models, load_config, read_card
from hubnmt.checkpoint.metadata import Score, read_languages, read_metadata, read_scores
from hubnmt.config import ModelConfig
from hubnmt.errors import HubNMTError
from hubnmt.hub.client import TIMEOUT_S, connect, find_cached
from hubnmt.hub.errors import readable_errors
from hubnmt.hub.files import ALLOWED, WEIGHTS
from hubnmt.hub.reference import HubReference, parse_reference

DTYPE_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I8": 1}
FACTS = ["cardData", "lastModified", "model-index", "private", "safetensors", "sha"]
"""Fields requested for each model."""

FRESH_S = 60
"""How long `first_models` is cached."""
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
    found = {name: path for name, path in bundled_models().items() if search.lower() in name}
    return [_from_folder(name, path, "bundled") for name, path in found.items()]


def list_cached(*, author: str = "", search: str = "") -> list[ListedModel]:
    """List the complete hubnmt models in the cache of `huggingface_hub`, newest first."""
    try:
        repos = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:
        return []
    listed = []
    for repo in sorted(repos, key=lambda repo: -repo.last_modified):
        is_owner = author.lower() in ("", repo.repo_id.partition("/")[0].lower())
        is_found = search.lower() in repo.repo_id.lower()
        if repo.repo_type != "model" or not is_owner or not is_found:
            continue
        for revision in sorted(repo.revisions, key=lambda revision: -revision.last_modified):
            reference = HubReference(repo.repo_id, min(revision.refs, default=revision.commit_hash))
            if (found := _describe_cached(reference)) is not None:
                listed.append(found)
    return listed


def _describe_cached(reference: HubReference) -> ListedModel | None:
    folder = find_cached(reference)
    if folder is None:
        return None
    try:
        model = _from_folder(str(reference), folder, "cached")
    except HubNMTError:  # a model of another library
        return None
    return dataclasses.replace(model, commit=folder.name)


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
    """List the models on the Hub that are tagged `hubnmt`, last modified first, page by page.

    Raises:
        HubError: if the Hub refuses or cannot be reached.
    """
    query: dict[str, Any] = {
        "filter": LIBRARY,
        "sort": "lastModified",
        "limit": PAGE_SIZE,
        "expand": FACTS,
        **({"author": author} if author else {}),
        **({"search": search} if search else {}),
    }
    with readable_errors("the list of models"):
        yield from filter(None, map(_from_row, _request_rows(query)))


def _request_rows(query: dict[str, Any]) -> Iterator[Any]:
    # Not by `list_models`, which retries for half a minute without a network, fails as a whole on
    # one model with an invalid card, and sends the token wherever the link to the next page leads.
    headers = build_hf_headers(token=connect().token)
    while query:
        answer = get_session().get(
            f"{constants.ENDPOINT}/api/models", params=query, headers=headers, timeout=TIMEOUT_S
        )
        hf_raise_for_status(answer)
        yield from answer.json()
        query = parse_qs(urlsplit(answer.links.get("next", {}).get("url", "")).query)


def _from_row(row: Any) -> ListedModel | None:
    try:
        return _parse_row(row) if parse_reference(row["id"]) else None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None  # invalid metadata


def _parse_row(row: dict[str, Any]) -> ListedModel:
    metadata = dict(row.get("cardData") or {})
    metadata |= {"model-index": row.get("model-index")}  # which the Hub returns separately
    languages = (*read_languages(metadata), "", "")
    weights = row.get("safetensors") or {"parameters": {}, "total": None}
    size = sum(n * DTYPE_BYTES[kind] for kind, n in weights["parameters"].items())
    return ListedModel(
        name=row["id"],
        source="hub",
        src_lang=languages[0],
        tgt_lang=languages[1],
        scores=read_scores(metadata),
        size_bytes=int(float(size)) or None,
        n_parameters=weights["total"],
        commit=row.get("sha") or "",
        is_private=bool(row.get("private")),
    )


def first_models(size: int) -> list[ListedModel]:
    """Return the first models of `list_hub`, which are requested once a minute.

    Raises:
        HubError: if the Hub refuses or cannot be reached.
    """
    return _request_first(int(time.monotonic() // FRESH_S), size)


@lru_cache(maxsize=1)
def _request_first(period: int, size: int) -> list[ListedModel]:
    return list(itertools.islice(list_hub(), size))


def evict_lru(limit: int) -> tuple[str, ...]:
    """Evict least recently used hubnmt models from the cache until they fit in `limit` bytes.

    The last one used stays, and models of other libraries, which share the cache. Returns the names
    of the evicted repositories.
    """
    names = {model.name.partition("@")[0] for model in list_cached()}
    try:
        cache = scan_cache_dir(constants.HF_HUB_CACHE)
    except CacheNotFound:
        return ()
    repos = [repo for repo in cache.repos if repo.repo_type == "model" and repo.repo_id in names]
    repos.sort(key=_last_used)
    total, evicted = sum(repo.size_on_disk for repo in repos), []
    for repo in repos[:-1]:
        if total <= limit:
            break
        cache.delete_revisions(*(revision.commit_hash for revision in repo.revisions)).execute()
        total -= repo.size_on_disk
        evicted.append(repo.repo_id)
    return tuple(evicted)


def _last_used(repo: CachedRepoInfo) -> float:
    files = (file for revision in repo.revisions for file in revision.files)
    read = (file.blob_last_accessed for file in files if file.file_name == WEIGHTS)
    return max(read, default=0.0)
