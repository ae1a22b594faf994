"""Find a model by its name, downloading it from the Hub if necessary.

Downloads go to the cache of `huggingface_hub`, or from there into a folder. A branch is recorded in
the cache only after all files of its commit are present, so an interrupted pull leaves the previous
commit in use. Cache layout: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

import contextlib
import logging
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, is_offline_mode, snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

from hubnmt.checkpoint.files import (
    CONFIG,
    LIMITS_MIB,
    MODEL_FILES,
    WEIGHTS,
    bundled_models,
    check_destination,
    load_config,
    replace_folder,
)
from hubnmt.config import ModelConfig
from hubnmt.errors import ConfigError, HubError, HubUnreachableError, ModelNotFoundError
from hubnmt.hub.client import HubReference, connect, parse_reference, read_repo, readable_errors
from hubnmt.schema import nearest_name
from hubnmt.text.tokenizer import JOINT_FILE, TWO_FILES
from hubnmt.text.tokenizer_file import max_file_bytes

logger = logging.getLogger(__name__)

MAX_HEADER_MIB = 16
"""Upper bound of the header of a weights file, which holds names and shapes."""


def locate_model(
    model: str | os.PathLike[str], *, revision: str | None = None, **hub: Any
) -> tuple[Path, str | None]:
    """Find a bundled name, a local folder or a Hub reference.

    Returns:
        the folder, and the commit if it is from the Hub, where `hub` are the options of `pull`.

    Raises:
        ModelNotFoundError: listing the bundled models.
        HubError: if the Hub has no such model, or cannot be reached.
    """
    name, bundled = os.fspath(model), bundled_models()
    folder = bundled.get(name)
    with contextlib.suppress(RuntimeError, OSError, ValueError):
        path = Path(name).expanduser()  # no home folder, path too long, null byte
        folder = folder or (path if path.is_dir() else None)
    if folder and revision:
        raise ConfigError(f"{name!r} is a local model, which has no revisions; remove the revision")
    if folder:
        return folder, None
    if reference := parse_reference(f"{name}@{revision}" if revision else name):
        pulled = pull(reference, **hub)
        return pulled, pulled.name
    near = nearest_name(name, list(bundled))
    suggestion = f" (did you mean {near!r}?)" if near else ""
    raise ModelNotFoundError(
        f"no model {name!r}{suggestion}: not a bundled model (available: {', '.join(bundled)}), "
        "not a local folder, and not user/name on the Hub"
    )


def pull(
    reference: HubReference,
    *,
    token: str | None = None,
    local_files_only: bool = False,
    cache_dir: str | Path | None = None,
    max_bytes: int | None = None,
) -> Path:
    """Return the folder of a model in the cache, named by its commit; download it if necessary.

    `local_files_only` uses only the cache, like `HF_HUB_OFFLINE=1`; `max_bytes` limits the size of
    a model that is not in the cache.

    Raises:
        HubError: if the model cannot be downloaded, is too large, or is not a hubnmt model.
        ModelFolderError: if its config is not a hubnmt config.
    """
    is_offline = local_files_only or is_offline_mode()
    cached = find_cached(reference, cache_dir=cache_dir)
    if cached and (is_offline or reference.is_pinned):
        return cached
    if is_offline:
        raise HubError(
            f"{reference} is not in the cache or incomplete, and offline mode is on "
            "(HF_HUB_OFFLINE or local_files_only): pull it once online"
        )
    api = connect(token)
    try:
        with readable_errors(str(reference)):
            return _download(api, reference, cache_dir=cache_dir, max_bytes=max_bytes)
    except HubUnreachableError as error:
        if cached is None:
            raise
        logger.warning("%s; using the cached commit %s", error, cached.name[:12])
        return cached


def _download(
    api: HfApi, reference: HubReference, *, cache_dir: str | Path | None, max_bytes: int | None
) -> Path:
    # 1. Check the files and their sizes.
    target = str(reference)
    info = read_repo(api, reference.repo, reference.revision)
    sizes = {file.rfilename: file.size for file in info.siblings or ()}
    check_files(sizes, target)
    pinned = HubReference(reference.repo, str(info.sha))
    place: Any = {"repo_id": pinned.repo, "revision": pinned.revision, "cache_dir": cache_dir}
    folder = find_cached(pinned, cache_dir=cache_dir)
    if folder is None:
        size = sum(sizes.get(name) or 0 for name in MODEL_FILES)
        if max_bytes is not None and size > max_bytes:
            raise HubError(
                f"{target} has {size / 1e6:,.0f} MB, over the limit of {max_bytes / 1e6:,.0f} MB; "
                f"download it: hubnmt pull {target}"
            )
        # 2. Download the config, and check the other sizes against it.
        config = load_config(Path(api.snapshot_download(**place, allow_patterns=CONFIG)))
        check_files(sizes, target, config=config)
        # 3. Download the rest. With a server error the client returns an incomplete folder.
        api.snapshot_download(**place, allow_patterns=MODEL_FILES)
        folder = find_cached(pinned, cache_dir=cache_dir)
        if folder is None:
            raise HubUnreachableError(f"the download of {target} is incomplete: try again")
    # 4. Record the branch, as `huggingface_hub` does.
    if not reference.is_pinned:
        with contextlib.suppress(OSError):  # a read-only cache is still usable
            ref = folder.parents[1] / "refs" / reference.revision
            ref.parent.mkdir(parents=True, exist_ok=True)
            draft = ref.with_name(f"{ref.name}.{os.getpid()}.tmp")
            draft.write_text(pinned.revision, encoding="ascii")
            draft.replace(ref)
    return folder


def pull_to(reference: HubReference, folder: Path) -> Path:
    """Pull a model, copy it into a folder, atomically, and return its folder in the cache.

    Raises:
        InputError: if the folder contains other files.
        HubError: if the model cannot be pulled.
        ModelFolderError: if the downloaded model is invalid.
    """
    from hubnmt.checkpoint.folder import load_model  # which brings torch

    check_destination(folder)
    pulled = pull(reference)
    load_model(pulled)
    with readable_errors(str(reference)), replace_folder(folder, dropped=MODEL_FILES) as draft:
        for path in {pulled / name for name in MODEL_FILES} & {*pulled.iterdir()}:
            shutil.copyfile(path, draft / path.name)
    return pulled


# --- files ---


def find_cached(reference: HubReference, *, cache_dir: str | Path | None = None) -> Path | None:
    """Return the folder of a complete model in the cache; it is named by the commit."""
    try:
        found = snapshot_download(
            reference.repo,
            revision=reference.revision,
            cache_dir=cache_dir,
            allow_patterns=MODEL_FILES,
            local_files_only=True,
        )
        check_files({path.name: path.stat().st_size for path in Path(found).iterdir()}, found)
    except (LocalEntryNotFoundError, HubError):
        return None
    return Path(found)


def check_files(
    sizes: Mapping[str, int | None], target: str, *, config: ModelConfig | None = None
) -> None:
    """Check that a repository or folder has the files of a model, by their sizes in bytes.

    `target` is its name in messages; `config` bounds the sizes of tokenizers and weights.

    Raises:
        HubError: if it is not a hubnmt model, or a file is too large or of unknown size.
    """
    missing = [name for name in (CONFIG, WEIGHTS) if name not in sizes]
    if JOINT_FILE not in sizes and not set(TWO_FILES) <= set(sizes):
        missing.append(JOINT_FILE)
    if missing:
        raise HubError(
            f"{target} is not a hubnmt model: it has no {' and no '.join(missing)}; sharded and "
            "pickled weights are not supported; `hubnmt list` shows models that work here"
        )
    limits = {name: (0, mib * 2**20) for name, mib in LIMITS_MIB.items()}
    if config is not None:
        most = max_file_bytes(max(config.src_vocab_size, config.tgt_vocab_size))
        limits |= dict.fromkeys((JOINT_FILE, *TWO_FILES), (0, most))
        n = config.n_parameters  # a byte each in int8, four in float32
        limits[WEIGHTS] = (n, 4 * n + MAX_HEADER_MIB * 2**20)
    for name, (least, most) in limits.items():
        size = sizes.get(name, least)
        if size is None or not least <= size <= most:
            shown = "an unknown number of" if size is None else f"{size:,}"
            raise HubError(
                f"{target}: {name} has {shown} bytes, but a valid one for this model has "
                f"{least:,} to {most:,}; refused"
            )
