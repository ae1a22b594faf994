"""Download a model into the cache of `huggingface_hub`, or into a folder.

Nothing is opened that does not have the hash the Hub states, and blobs are named by that hash. A
branch is noted in the cache when all its files are there, so a pull that was cut off leaves the one
before in use. Source of the cache's layout:
https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

import contextlib
import dataclasses
import hashlib
import logging
import os
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from huggingface_hub import HfApi, constants, try_to_load_from_cache

from hubnmt.checkpoint.folder import (
    LIBRARY,
    MAX_CARD_MIB,
    MAX_JSON_MIB,
    check_place,
    load_config,
    load_model,
    replace_folder,
)
from hubnmt.config import ModelConfig
from hubnmt.errors import HubError, HubUnreachableError
from hubnmt.hub.client import (
    HASH,
    HubFile,
    connect,
    download,
    is_offline,
    plain_words,
    read_repo,
)
from hubnmt.hub.reference import HubReference
from hubnmt.text.tokenizer import MAX_FILE_MIB, max_file_bytes

logger = logging.getLogger(__name__)

TRIES = 2
"""Downloads of a file whose content came out wrong."""

PIECE = 2**20

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
JOINT_TOKENIZER = ("tokenizer.json",)
TWO_TOKENIZERS = ("tokenizer_src.json", "tokenizer_tgt.json")
TOKENIZERS = JOINT_TOKENIZER + TWO_TOKENIZERS
MAX_HEADER_MIB = 16
"""Room for names and shapes in a weights file, far beyond what ours take."""

LIMITS_MIB = {
    CONFIG: MAX_JSON_MIB,
    "decoding.json": MAX_JSON_MIB,
    "tokenizer.json": MAX_FILE_MIB,
    "tokenizer_src.json": MAX_FILE_MIB,
    "tokenizer_tgt.json": MAX_FILE_MIB,
    CARD: MAX_CARD_MIB,
}
"""The allow-list but for the weights, whose limit the config sets. In order of fetching."""

ALLOWED = (*LIMITS_MIB, WEIGHTS)

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
    blob = _find_blob(path)
    return blob.name if blob else None


def _find_blob(path: Path) -> Path | None:
    """Return what a file in the cache links to, if that is a blob of the same repository."""
    if not path.is_symlink():
        return None
    target = Path(os.path.normpath(path.parent / path.readlink()))
    blobs = Path(os.path.normpath(path.parents[2] / "blobs"))
    return target if target.parent == blobs and HASH.fullmatch(target.name) else None


def _pull_online(
    reference: HubReference,
    token: str | None,
    cache_dir: FolderName | None,
    max_bytes: int | None,
) -> Pulled:
    api = connect(token)
    with plain_words(str(reference)):
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


def _find_storage(repo: str, cache_dir: FolderName | None) -> Path:
    """Return where the cache keeps a repository."""
    return Path(cache_dir or constants.HF_HUB_CACHE) / f"models--{repo.replace('/', '--')}"


def _check_size(files: Sequence[HubFile], max_bytes: int, reference: HubReference) -> None:
    """Refuse a download that is too large, before any of it is fetched.

    Raises:
        HubError: with the size and the limit, or if the Hub does not say how large a file is.
    """
    unknown = [file.name for file in files if file.size is None]
    if unknown:
        raise HubError(f"{reference}: the Hub does not state the size of {' and '.join(unknown)}")
    size = sum(file.size or 0 for file in files)
    if size > max_bytes:
        raise HubError(
            f"{reference} has {size / 1e6:,.0f} MB, models of up to {max_bytes / 1e6:,.0f} MB are "
            f"fetched here; pull it by hand: hubnmt pull {reference}"
        )


def _fetch(api: HfApi, repo: str, file: HubFile, folder: Path, max_bytes: int) -> None:
    """Download one file, or find it in the cache; its content is what the Hub states.

    Raises:
        HubError: if it is not, again and again, or the Hub states none.
    """
    if file.digest is None:
        raise HubError(f"{repo}: the Hub states no hash of {file.name}; without it none is taken")
    path, blob = folder / file.name, folder.parents[1] / "blobs" / file.digest
    if path.is_file() and matches(path, file.digest):
        return
    if not (blob.is_file() and matches(blob, file.digest)):
        _download_blob(api, repo, file, folder.name, blob, max_bytes)
    _link(path, blob)


def _download_blob(
    api: HfApi, repo: str, file: HubFile, commit: str, blob: Path, max_bytes: int
) -> None:
    """Download content under a name of its own, and give it the blob's when it is what was stated.

    Raises:
        HubError: if it never is.
    """
    blob.parent.mkdir(parents=True, exist_ok=True)
    draft = blob.with_name(f"{blob.name}.{uuid.uuid4().hex[:8]}.incomplete")
    try:
        for _ in range(TRIES):
            with draft.open("wb") as sink:
                download(api, repo, commit, file.name, sink, max_bytes=max_bytes)
            if matches(draft, blob.name):
                draft.replace(blob)
                return
            logger.warning("%s of %s came with other content than stated", file.name, repo)
    finally:
        draft.unlink(missing_ok=True)
    raise HubError(
        f"{repo}: {file.name} comes with other content than the Hub states (its hash differs); "
        "nothing of it was kept: try again, and if it stays, ask who runs your proxy or mirror"
    )


def _link(path: Path, blob: Path) -> None:
    """Let a file of a commit be a blob; where links cannot be made, the blob becomes the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        draft.symlink_to(os.path.relpath(blob, path.parent))
    except OSError:
        blob.replace(draft)
    draft.replace(path)


def _forget(path: Path) -> None:
    """Take a file out of the cache: the name in the snapshot, and the blob behind it."""
    blob = _find_blob(path)
    with contextlib.suppress(OSError):
        if blob:
            blob.unlink(missing_ok=True)
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


# --- which files make a model, and how large they may be ---


def choose_files(
    files: Mapping[str, int | None], *, target: str, library: str | None = None
) -> list[str]:
    """List the files to fetch, config first, weights last.

    Args:
        files: name to size in bytes, of all files of the repository.
        target: how the repository was named.
        library: what the Hub says made it.

    Raises:
        HubError: if this is not a model of ours, or a file is too large.
    """
    is_foreign = library not in (None, LIBRARY)
    missing = [name for name in (CONFIG, WEIGHTS) if name not in files]
    has_tokenizer = any(set(kind) <= set(files) for kind in (JOINT_TOKENIZER, TWO_TOKENIZERS))
    if not has_tokenizer:
        missing.append(JOINT_TOKENIZER[0])
    if is_foreign or missing:
        raise HubError(_describe_foreign(files, missing, target, library if is_foreign else None))
    for name, limit in LIMITS_MIB.items():
        size = files.get(name)
        if size is not None and size > limit * 2**20:
            raise HubError(
                f"{target}: {name} has {size / 2**20:,.0f} MiB, at most {limit} are taken; refused"
            )
    return [name for name in ALLOWED if name in files]


def _describe_foreign(
    files: Mapping[str, int | None], missing: Sequence[str], target: str, library: str | None
) -> str:
    """Say what a repository is, since it is not ours."""
    kind = f"a model of the library {library!r}" if library else "not a hubnmt model"
    pickles = [name for name in files if name.endswith((".bin", ".pt", ".pth", ".ckpt", ".pkl"))]
    shards = [name for name in files if name.startswith("model-") and name.endswith("safetensors")]
    facts = []
    if missing:
        facts.append(f"it has no {' and no '.join(missing)}")
    if shards:
        facts.append("its weights come in several files, ours in one")
    elif pickles and WEIGHTS in missing:
        facts.append(f"its weights are pickled ({pickles[0]}), which could run code")
    detail = f": {'; '.join(facts)}" if facts else ""
    return f"{target} is {kind}{detail}; `hubnmt list` shows models that work here"


def check_sizes(sizes: Mapping[str, int | None], config: ModelConfig, *, target: str) -> None:
    """Compare sizes with what the config describes, before the files are fetched.

    Raises:
        HubError: if they cannot belong together.
    """
    for name in TOKENIZERS:
        size, most = sizes.get(name), largest_size(name, config)
        if size is not None and size > most:
            raise HubError(
                f"{target}: {name} has {size:,} bytes, but {CONFIG} describes a vocabulary that "
                f"takes at most {most:,}; refused"
            )
    size, least, most = sizes.get(WEIGHTS), 2 * config.n_parameters, largest_size(WEIGHTS, config)
    if size is not None and not least <= size <= most:
        raise HubError(
            f"{target}: {WEIGHTS} has {size:,} bytes, but {CONFIG} describes "
            f"{config.n_parameters:,} parameters ({least:,} to {most:,} bytes); refused"
        )


def largest_size(name: str, config: ModelConfig | None) -> int:
    """Say how many bytes a file of a model may have; without a config, what any may have."""
    if config is not None and name == WEIGHTS:
        return 4 * config.n_parameters + MAX_HEADER_MIB * 2**20
    if config is not None and name in TOKENIZERS:
        return max_file_bytes(max(config.src_vocab_size, config.tgt_vocab_size))
    return LIMITS_MIB[name] * 2**20


# --- whether content is what the Hub states ---


def digest_bytes(data: bytes) -> dict[str, str]:
    """Hash content both ways: `blob_id` as git does, `sha256` as LFS does."""
    git = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    return {"blob_id": git.hexdigest(), "sha256": hashlib.sha256(data).hexdigest()}


def matches(path: Path, expected: str) -> bool:
    """Hash a file the way `expected` was made (40 digits: git, 64: LFS) and compare."""
    if len(expected) == 64:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            digest.update(piece)
    return digest.hexdigest() == expected
