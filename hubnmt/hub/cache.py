"""The models in the local cache of `huggingface_hub`."""

import os
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from hubnmt.errors import HubError
from hubnmt.hub.client import HASH
from hubnmt.hub.files import ALLOWED, CONFIG, choose_files
from hubnmt.hub.reference import HubReference


def find_complete(reference: HubReference, *, cache_dir: str | Path | None = None) -> Path | None:
    """Find a cached folder that has all files of a model, without verifying them."""
    folder = cached_folder(reference, cache_dir)
    if folder is None:
        return None
    names = [name for name in ALLOWED if (folder / name).is_file()]
    try:
        choose_files(dict.fromkeys(names), target=str(reference))
    except HubError:
        return None
    return folder


def cached_folder(reference: HubReference, cache_dir: str | Path | None) -> Path | None:
    """Return the folder of a revision in the cache, which may be incomplete."""
    found = try_to_load_from_cache(
        reference.repo, CONFIG, cache_dir=cache_dir, revision=reference.revision
    )
    return Path(found).parent if isinstance(found, str) else None


def hash_of_link(path: Path) -> str | None:
    """Return the hash in the name of the blob that a file links to; None without symbolic links."""
    blob = find_blob(path)
    return blob.name if blob else None


def find_blob(path: Path) -> Path | None:
    """Return the blob that a cached file links to, if it is in the same repository."""
    if not path.is_symlink():
        return None
    target = Path(os.path.normpath(path.parent / path.readlink()))
    blobs = Path(os.path.normpath(path.parents[2] / "blobs"))
    return target if target.parent == blobs and HASH.fullmatch(target.name) else None
