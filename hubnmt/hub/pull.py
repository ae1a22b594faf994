"""Download a model into the cache of `huggingface_hub`, or into a folder.

Every file is verified against the hash that the Hub states before it is read. A branch is recorded
in the cache only after all its files are present, so an interrupted pull leaves the previous commit
in use. Cache layout: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

import contextlib
import dataclasses
import logging
import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import HfApi, constants

from hubnmt.checkpoint.description import LIBRARY, check_place, load_config
from hubnmt.checkpoint.files import replace_folder
from hubnmt.checkpoint.folder import load_model
from hubnmt.errors import HubError, HubUnreachableError
from hubnmt.hub.cache import find_blob, find_complete, hash_of_link
from hubnmt.hub.client import (
    HubFile,
    connect,
    download,
    is_offline,
    read_repo,
    readable_errors,
)
from hubnmt.hub.files import ALLOWED, CONFIG, check_sizes, choose_files, largest_size, matches
from hubnmt.hub.reference import HubReference

logger = logging.getLogger(__name__)

ATTEMPTS = 2
"""Downloads of a file whose hash does not match."""


@dataclasses.dataclass(frozen=True, slots=True)
class Pulled:
    """A downloaded model."""

    folder: Path
    """Folder of the model; read-only if it is in the cache."""
    commit: str
    """Commit hash that the reference resolved to."""


def pull(
    reference: HubReference,
    *,
    token: str | None = None,
    local_files_only: bool = False,
    cache_dir: str | Path | None = None,
    max_bytes: int | None = None,
) -> Pulled:
    """Download a model, or find it in the cache.

    Args:
        reference: repository and revision.
        token: defaults to `HF_TOKEN` or the stored login.
        local_files_only: use only the cache, like `HF_HUB_OFFLINE=1`.
        cache_dir: cache folder; defaults to that of `huggingface_hub`.
        max_bytes: download limit without cached files; None for no limit.

    Raises:
        HubError: if the model cannot be downloaded, is too large, is not a hubnmt model, or does
            not match the stated hashes.
        ModelFolderError: if its config is not a hubnmt config.
    """
    is_off = local_files_only or is_offline()
    if is_off or reference.is_pinned:
        cached = find_cached(reference, cache_dir=cache_dir)
        if cached is not None:
            return cached
    if is_off:
        raise HubError(
            f"{reference} is not in the cache or incomplete, and offline mode is on "
            "(HF_HUB_OFFLINE or local_files_only): pull it once online"
        )
    try:
        return _pull_online(reference, token, cache_dir, max_bytes)
    except HubUnreachableError as error:
        cached = find_cached(reference, cache_dir=cache_dir)
        if cached is None:
            raise
        logger.warning("%s; using the cached commit %s", error, cached.commit[:12])
        return cached


def find_cached(reference: HubReference, *, cache_dir: str | Path | None = None) -> Pulled | None:
    """Find a complete, verified model in the cache; files that do not match their hash are removed.

    Raises:
        ModelFolderError: if its config is not a hubnmt config.
    """
    folder = find_complete(reference, cache_dir=cache_dir)
    if folder is None:
        return None
    for path in (folder / name for name in ALLOWED if (folder / name).is_file()):
        stated = hash_of_link(path)
        if stated and not matches(path, stated):
            _remove(path)
            return None
        if path.name == CONFIG:
            load_config(folder)  # before hashing weights, which may be another library's
    return Pulled(folder, folder.name)


def _pull_online(
    reference: HubReference,
    token: str | None,
    cache_dir: str | Path | None,
    max_bytes: int | None,
) -> Pulled:
    api = connect(token)
    with readable_errors(str(reference)):
        state = read_repo(api, reference.repo, reference.revision)
        sizes = {name: file.size for name, file in state.files.items()}
        library = None if LIBRARY in state.tags else state.library
        names = choose_files(sizes, target=str(reference), library=library)
        files = [state.files[name] for name in names]
        logger.info("%s is commit %s", reference, state.commit)
        storage = _find_storage(reference.repo, cache_dir)
        if max_bytes is not None:
            new = [
                file for file in files if not (storage / "blobs" / (file.digest or "")).is_file()
            ]
            _check_size(new, max_bytes, reference)
        folder = storage / "snapshots" / state.commit
        config = None
        for file in files:
            limit = largest_size(file.name, config) if file.size is None else file.size
            _fetch(api, reference.repo, file, folder, limit)
            if file.name == CONFIG:
                config = load_config(folder)
                check_sizes(sizes, config, target=str(reference))
        _note_revision(storage, reference, state.commit)
    return Pulled(folder, state.commit)


def _find_storage(repo: str, cache_dir: str | Path | None) -> Path:
    """Return the cache folder of a repository."""
    return Path(cache_dir or constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"


def _check_size(files: Sequence[HubFile], max_bytes: int, reference: HubReference) -> None:
    """Check the size of a download before it starts.

    Raises:
        HubError: if it exceeds the limit, or the Hub does not state the size of a file.
    """
    unknown = [file.name for file in files if file.size is None]
    if unknown:
        raise HubError(f"{reference}: the Hub does not state the size of {' and '.join(unknown)}")
    size = sum(file.size or 0 for file in files)
    if size > max_bytes:
        raise HubError(
            f"{reference} has {size / 1e6:,.0f} MB, over the limit of {max_bytes / 1e6:,.0f} MB; "
            f"download it from the command line: hubnmt pull {reference}"
        )


def _fetch(api: HfApi, repo: str, file: HubFile, folder: Path, max_bytes: int) -> None:
    """Download and verify one file, unless it is in the cache.

    Raises:
        HubError: if its hash never matches, or the Hub states none.
    """
    if file.digest is None:
        raise HubError(
            f"{repo}: the Hub states no hash of {file.name}, so it cannot be verified; refused"
        )
    path, blob = folder / file.name, folder.parents[1] / "blobs" / file.digest
    if path.is_file() and matches(path, file.digest):
        return
    if not (blob.is_file() and matches(blob, file.digest)):
        _download_blob(api, repo, file, folder.name, blob, max_bytes)
    _link(path, blob)


def _download_blob(
    api: HfApi, repo: str, file: HubFile, commit: str, blob: Path, max_bytes: int
) -> None:
    """Download to a temporary file and rename it to the blob once its hash matches.

    Raises:
        HubError: if it never matches.
    """
    blob.parent.mkdir(parents=True, exist_ok=True)
    draft = blob.with_name(f"{blob.name}.{uuid.uuid4().hex[:8]}.incomplete")
    try:
        for _ in range(ATTEMPTS):
            with draft.open("wb") as sink:
                download(api, repo, commit, file.name, sink, max_bytes=max_bytes)
            if matches(draft, blob.name):
                draft.replace(blob)
                return
            logger.warning("%s of %s does not match the stated hash", file.name, repo)
    finally:
        draft.unlink(missing_ok=True)
    raise HubError(
        f"{repo}: {file.name} does not match the hash that the Hub states and was discarded: "
        "try again; if it persists, ask the operator of your proxy or mirror"
    )


def _link(path: Path, blob: Path) -> None:
    """Link a snapshot file to its blob, or move the blob there if links are not supported."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        draft.symlink_to(os.path.relpath(blob, path.parent))
    except OSError:
        blob.replace(draft)
    draft.replace(path)


def _remove(path: Path) -> None:
    """Remove a file and its blob from the cache."""
    blob = find_blob(path)
    with contextlib.suppress(OSError):
        if blob:
            blob.unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def _note_revision(storage: Path, reference: HubReference, commit: str) -> None:
    """Record the commit of a branch in the cache, as `huggingface_hub` does."""
    if reference.revision == commit:
        return
    note = storage / "refs" / reference.revision
    with contextlib.suppress(OSError):  # a read-only cache is still usable
        note.parent.mkdir(parents=True, exist_ok=True)
        draft = note.with_name(f"{note.name}.{os.getpid()}.tmp")
        draft.write_text(commit, encoding="ascii")
        draft.replace(note)


def pull_to(reference: HubReference, folder: Path) -> Pulled:
    """Download a model into a folder, atomically.

    Raises:
        InputError: if the folder contains other files.
        HubError: see `pull`.
        ModelFolderError: if the downloaded model is invalid.
    """
    check_place(folder)
    pulled = pull(reference)
    load_model(pulled.folder)
    with readable_errors(str(reference)), replace_folder(folder, dropped=ALLOWED) as draft:
        for name in ALLOWED:
            if (pulled.folder / name).is_file():
                shutil.copyfile(pulled.folder / name, draft / name)
    return Pulled(folder, pulled.commit)
