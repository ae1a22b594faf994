"""From the Hub to a folder on this machine.

Takes a reference, gives the folder in the cache of `huggingface_hub` and the commit it is. Must not
know tensors. Nothing is opened that does not have the hash the Hub states: the client compares
sizes only. A branch is noted in the cache when all its files are there, so a pull that was cut off
leaves the one before in use.
"""

import contextlib
import dataclasses
import logging
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from huggingface_hub import HfApi, ModelInfo, constants, try_to_load_from_cache
from huggingface_hub.hf_api import RepoSibling

from hubnmt.checkpoint import LIBRARY, check_place, load_config, load_model, replace_folder
from hubnmt.errors import HubError, HubUnreachableError
from hubnmt.hub.client import (
    TIMEOUT_S,
    ask_about,
    connect,
    is_offline,
    patiently,
    plain_words,
)
from hubnmt.hub.contents import ALLOWED, CONFIG, WEIGHTS, check_weights_size, choose_files
from hubnmt.hub.digest import matches
from hubnmt.hub.reference import HubReference

logger = logging.getLogger(__name__)

PIECE_BYTES = 2**18
"""The client writes and counts pieces of 10 MiB: most models of ours would come in one, with no
progress to see, and nothing to go on from when the connection breaks."""

TRIES = 2
"""Downloads of a file whose content came out wrong."""

HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")

FolderName = str | Path


@dataclasses.dataclass(frozen=True, slots=True)
class Pulled:
    """A model from the Hub, on this machine."""

    folder: Path
    """In the cache; read it, do not write to it."""
    commit: str
    """The hash of the commit that the reference meant."""


def pull(
    reference: HubReference,
    *,
    token: str | None = None,
    local_files_only: bool = False,
    cache_dir: FolderName | None = None,
    max_bytes: int | None = None,
) -> Pulled:
    """Fetch a model, or find it in the cache.

    Args:
        reference: which.
        token: None takes `HF_TOKEN` or the login.
        local_files_only: look in the cache only, as `HF_HUB_OFFLINE=1` does.
        cache_dir: in place of the cache of `huggingface_hub`.
        max_bytes: most to download; None has no limit. What is in the cache counts for nothing.

    Raises:
        HubError: if it cannot be had, is too large or not ours, or came with other content than
            stated.
        ModelFolderError: if its config is not one of ours.
    """
    is_off = local_files_only or is_offline()
    if is_off or reference.is_pinned:
        cached = find_cached(reference, cache_dir=cache_dir)
        if cached is not None:
            return cached
    if is_off:
        raise HubError(
            f"{reference} is not in the cache, or not whole, and the network is off "
            "(HF_HUB_OFFLINE or local_files_only): pull it once with the network on"
        )
    try:
        return _pull_online(reference, token, cache_dir, max_bytes)
    except HubUnreachableError as error:
        cached = find_cached(reference, cache_dir=cache_dir)
        if cached is None:
            raise
        logger.warning("%s; using the cached commit %s", error, cached.commit[:12])
        return cached


def find_cached(reference: HubReference, *, cache_dir: FolderName | None = None) -> Pulled | None:
    """Find a whole and undamaged model in the cache; what was changed since it came is dropped.

    Raises:
        ModelFolderError: if its config is not one of ours.
    """
    folder = find_whole(reference, cache_dir=cache_dir)
    if folder is None:
        return None
    for path in (folder / name for name in ALLOWED if (folder / name).is_file()):
        stated = _stated_by_link(path)
        if stated and not matches(path, stated):
            _forget(path)
            return None
        if path.name == CONFIG:
            load_config(folder)  # the weights of another library may be large: they are not read
    return Pulled(folder, folder.name)


def find_whole(reference: HubReference, *, cache_dir: FolderName | None = None) -> Path | None:
    """Find a folder in the cache with all files of a model, by their names alone."""
    folder = _cached_folder(reference, cache_dir)
    if folder is None:
        return None
    names = [name for name in ALLOWED if (folder / name).is_file()]
    try:
        choose_files(dict.fromkeys(names), target=str(reference))
    except HubError:
        return None
    return folder


def _cached_folder(reference: HubReference, cache_dir: FolderName | None) -> Path | None:
    found = try_to_load_from_cache(
        reference.repo, CONFIG, cache_dir=cache_dir, revision=reference.revision
    )
    return Path(found).parent if isinstance(found, str) else None


def _stated_by_link(path: Path) -> str | None:
    """Read a file's hash off the name of the blob it links to; a cache without links has none."""
    if not path.is_symlink():
        return None
    name = path.readlink().name
    return name if HASH.fullmatch(name) else None


def _pull_online(
    reference: HubReference,
    token: str | None,
    cache_dir: FolderName | None,
    max_bytes: int | None,
) -> Pulled:
    api = connect(token)
    constants.DOWNLOAD_CHUNK_SIZE = min(constants.DOWNLOAD_CHUNK_SIZE, PIECE_BYTES)
    with plain_words(str(reference)):
        info = ask(api, reference)
        siblings = {sibling.rfilename: sibling for sibling in info.siblings or []}
        names = choose_files(
            {name: sibling.size for name, sibling in siblings.items()},
            target=str(reference),
            library=None if LIBRARY in (info.tags or []) else info.library_name,
        )
        commit = info.sha or ""
        pinned = HubReference(reference.repo, commit)
        logger.info("%s is commit %s", reference, commit)
        if max_bytes is not None:
            new = [siblings[name] for name in names if not _is_cached(pinned, name, cache_dir)]
            _check_size(new, max_bytes, reference)
        for name in names:
            path = _fetch(api, pinned, siblings[name], cache_dir)
            if name == CONFIG:
                size = siblings[WEIGHTS].size
                check_weights_size(size, load_config(path.parent), target=str(reference))
        _note_revision(path.parents[2], reference, commit)
    return Pulled(path.parent, commit)


def _is_cached(pinned: HubReference, name: str, cache_dir: FolderName | None) -> bool:
    found = try_to_load_from_cache(pinned.repo, name, cache_dir=cache_dir, revision=pinned.revision)
    return isinstance(found, str)


def _check_size(files: Sequence[RepoSibling], max_bytes: int, reference: HubReference) -> None:
    """Refuse a download that is too large, before any of it is fetched.

    Raises:
        HubError: with the size and the limit, or if the Hub does not say how large a file is.
    """
    unknown = [file.rfilename for file in files if file.size is None]
    if unknown:
        raise HubError(f"{reference}: the Hub does not state the size of {' and '.join(unknown)}")
    size = sum(file.size or 0 for file in files)
    if size > max_bytes:
        raise HubError(
            f"{reference} has {size / 1e6:,.0f} MB, models of up to {max_bytes / 1e6:,.0f} MB are "
            f"fetched here; pull it by hand: hubnmt pull {reference}"
        )


def ask(api: HfApi, reference: HubReference) -> ModelInfo:
    """Ask the Hub what a reference means: its commit, its files with sizes and hashes."""
    return ask_about(
        reference.repo,
        lambda: api.model_info(
            reference.repo,
            revision=reference.revision,
            files_metadata=True,
            timeout=TIMEOUT_S,
        ),
    )


def _fetch(
    api: HfApi, pinned: HubReference, sibling: RepoSibling, cache_dir: FolderName | None
) -> Path:
    """Download one file, or find it in the cache; its content is what the Hub states.

    Raises:
        HubError: if it is not, again and again.
    """
    name = sibling.rfilename
    stated = sibling.lfs.sha256 if sibling.lfs else sibling.blob_id
    for _ in range(TRIES):
        path = Path(
            patiently(
                lambda: api.hf_hub_download(
                    pinned.repo,
                    name,
                    revision=pinned.revision,
                    cache_dir=cache_dir,
                )
            )
        )
        try:
            is_good = stated is None or matches(path, stated)
        except BaseException:
            _forget(path)  # nobody looked at it yet
            raise
        if is_good:
            return path
        _forget(path)
        logger.warning("%s of %s came with other content than stated", name, pinned.repo)
    raise HubError(
        f"{pinned.repo}: {name} comes with other content than the Hub states (its hash differs); "
        "nothing of it was kept: try again, and if it stays, ask who runs your proxy or mirror"
    )


def _forget(path: Path) -> None:
    """Take a file out of the cache: the name in the snapshot, and the blob behind it."""
    with contextlib.suppress(OSError):
        if path.is_symlink():
            (path.parent / path.readlink()).unlink(missing_ok=True)
        path.unlink(missing_ok=True)


def _note_revision(storage: Path, reference: HubReference, commit: str) -> None:
    """Note in the cache which commit a branch is, as `huggingface_hub` does."""
    if reference.revision == commit:
        return
    note = storage / "refs" / reference.revision
    with contextlib.suppress(OSError):  # a cache that cannot be written still serves
        note.parent.mkdir(parents=True, exist_ok=True)
        draft = note.with_name(f"{note.name}.{os.getpid()}.tmp")
        draft.write_text(commit, encoding="ascii")
        draft.replace(note)


def pull_to(reference: HubReference, folder: Path, *, token: str | None = None) -> Pulled:
    """Fetch a model into a folder of one's own, whole or not at all.

    Raises:
        InputError: if the folder holds something else.
        HubError: see `pull`.
        ModelFolderError: if what came is not a sound model.
    """
    check_place(folder)
    pulled = pull(reference, token=token)
    load_model(pulled.folder)
    with plain_words(str(reference)), replace_folder(folder, dropped=ALLOWED) as draft:
        for name in ALLOWED:
            if (pulled.folder / name).is_file():
                shutil.copyfile(pulled.folder / name, draft / name)
    return Pulled(folder, pulled.commit)
