"""List bundled, cached and Hub models by their metadata, and evict cached models (LRU)."""

import contextlib
import dataclasses
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import CachedRepoInfo, CacheNotFound, constants, get_session, scan_cache_dir
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # documented, not marked so
    build_hf_headers,
    hf_raise_for_status,
)

from hubnmt.checkpoint.files import LIBRARY, MODEL_FILES, WEIGHTS, bundled_models, load_config
from hubnmt.checkpoint.metadata import Score, read_card, read_languages, read_metadata, read_scores
from hubnmt.errors import HubNMTError
from hubnmt.hub.client import TIMEOUT_S, HubReference, connect, parse_reference, readable_errors
from hubnmt.hub.pull import find_cached

DTYPE_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "F16": 2, "I8": 1}
FACTS = ["cardData", "lastModified", "model-index", "private", "safetensors", "sha"]
"""Fields requested for each model."""


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


def list_bundled() -> list[ListedModel]:
    """List the models bundled with the package."""
    return [_from_folder(name, folder, "bundled") for name, folder in bundled_models().items()]


def list_cached() -> list[ListedModel]:
    """List the complete hubnmt models in the cache of `huggingface_hub`, newest first."""
    try:
        found = scan_cache_dir(constants.HF_HUB_CACHE).repos
    except CacheNotFound:
        return []
    repos = [repo for repo in found if repo.repo_type == "model"]
    revisions = [(repo, each) for repo in repos for each in repo.revisions]
    listed = []
    for repo, revision in sorted(revisions, key=lambda pair: -pair[1].last_modified):
        reference = HubReference(repo.repo_id, min(revision.refs, default=revision.commit_hash))
        with contextlib.suppress(HubNMTError):  # a model of another library
            if folder := find_cached(reference):
                model = _from_folder(str(reference), folder, "cached")
                listed.append(dataclasses.replace(model, commit=folder.name))
    return listed


def _from_folder(name: str, folder: Path, source: Literal["bundled", "cached"]) -> ListedModel:
    config = load_config(folder)
    files = [folder / name for name in MODEL_FILES if (folder / name).is_file()]
    return ListedModel(
        name=name,
        source=source,
        src_lang=config.src_lang,
        tgt_lang=config.tgt_lang,
        scores=read_scores(read_metadata(read_card(folder))),
        size_bytes=sum(file.stat().st_size for file in files),
        n_parameters=config.n_parameters,
    )


def list_hub(*, author: str = "", search: str = "", limit: int = 100) -> list[ListedModel]:
    """List the models on the Hub that are tagged `hubnmt`, last modified first, at most 1,000.

    Raises:
        HubError: if the Hub refuses or cannot be reached.
    """
    query: dict[str, Any] = {"filter": LIBRARY, "sort": "lastModified", "expand": FACTS}
    query |= {"limit": limit, **({"author": author} if author else {})}
    query |= {"search": search} if search else {}
    with readable_errors("the list of models"):
        # Not by `list_models`, which fails as a whole on one model with an invalid card.
        url, headers = f"{constants.ENDPOINT}/api/models", build_hf_headers(token=connect().token)
        answer = get_session().get(url, params=query, headers=headers, timeout=TIMEOUT_S)
        hf_raise_for_status(answer)
        return list(filter(None, map(_from_row, answer.json())))


def _from_row(row: dict[str, Any]) -> ListedModel | None:
    """Describe a model by its row in the Hub's answer; None for invalid metadata."""
    try:
        if parse_reference(row["id"]) is None:
            return None
        # The Hub returns the model index separately.
        metadata = {**(row.get("cardData") or {}), "model-index": row.get("model-index")}
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
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        return None


def evict_lru(limit: int) -> tuple[str, ...]:
    """Evict least recently used hubnmt models from the cache until they fit in `limit` bytes.

    The last one used stays, and models of other libraries, which share the cache. Returns the names
    of the evicted repositories.
    """
    names = {model.name.partition("@")[0] for model in list_cached()}
    if not names:
        return ()
    cache = scan_cache_dir(constants.HF_HUB_CACHE)
    repos = [repo for repo in cache.repos if repo.repo_type == "model" and repo.repo_id in names]
    repos.sort(key=_last_used)
    evicted = []
    while len(repos) > 1 and sum(repo.size_on_disk for repo in repos) > limit:
        repo = repos.pop(0)
        cache.delete_revisions(*(revision.commit_hash for revision in repo.revisions)).execute()
        evicted.append(repo.repo_id)
    return tuple(evicted)


def _last_used(repo: CachedRepoInfo) -> float:
    files = (file for revision in repo.revisions for file in revision.files)
    read = (file.blob_last_accessed for file in files if file.file_name == WEIGHTS)
    return max(read, default=0.0)
