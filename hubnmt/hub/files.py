"""The files of a model on the Hub: their names, size limits and content hashes."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from hubnmt.checkpoint.description import LIBRARY, MAX_CARD_MIB
from hubnmt.checkpoint.files import MAX_JSON_MIB
from hubnmt.config import ModelConfig
from hubnmt.errors import HubError
from hubnmt.text.tokenizer_file import MAX_FILE_MIB, max_file_bytes

BLOCK_BYTES = 2**20

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
JOINT_TOKENIZER = ("tokenizer.json",)
TWO_TOKENIZERS = ("tokenizer_src.json", "tokenizer_tgt.json")
TOKENIZERS = JOINT_TOKENIZER + TWO_TOKENIZERS
METRICS, SAMPLES = "metrics.jsonl", "samples.md"
MAX_RECORD_MIB = 1
"""Size limit of the curves and of the sample translations of a training run."""
BOARD = "runs/events.out.tfevents.hubnmt"
"""TensorBoard events, which the Hub displays; uploaded, but not downloaded."""
MAX_BOARD_MIB = 8
MAX_HEADER_MIB = 16
"""Upper bound of the header of a weights file, which holds names and shapes."""

LIMITS_MIB = {
    CONFIG: MAX_JSON_MIB,
    "decoding.json": MAX_JSON_MIB,
    "tokenizer.json": MAX_FILE_MIB,
    "tokenizer_src.json": MAX_FILE_MIB,
    "tokenizer_tgt.json": MAX_FILE_MIB,
    CARD: MAX_CARD_MIB,
    METRICS: MAX_RECORD_MIB,
    SAMPLES: MAX_RECORD_MIB,
}
"""Allowed files in download order, without the weights, whose limit follows from the config."""

ALLOWED = (*LIMITS_MIB, WEIGHTS)


def choose_files(
    files: Mapping[str, int | None], *, target: str, library: str | None = None
) -> list[str]:
    """List the files to download, config first, weights last.

    Args:
        files: all files of the repository, name to size in bytes.
        target: name of the repository in messages.
        library: `library_name` on the Hub.

    Raises:
        HubError: if it is not a hubnmt model, or a file is too large.
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
                f"{target}: {name} has {size / 2**20:,.0f} MiB, at most {limit} allowed; refused"
            )
    return [name for name in ALLOWED if name in files]


def _describe_foreign(
    files: Mapping[str, int | None], missing: Sequence[str], target: str, library: str | None
) -> str:
    """Describe a repository that is not a hubnmt model."""
    kind = f"a model of the library {library!r}" if library else "not a hubnmt model"
    pickles = [name for name in files if name.endswith((".bin", ".pt", ".pth", ".ckpt", ".pkl"))]
    shards = [name for name in files if name.startswith("model-") and name.endswith("safetensors")]
    facts = []
    if missing:
        facts.append(f"it has no {' and no '.join(missing)}")
    if shards:
        facts.append("its weights are sharded, which hubnmt does not support")
    elif pickles and WEIGHTS in missing:
        facts.append(f"its weights are pickled ({pickles[0]}), which could run code")
    detail = f": {'; '.join(facts)}" if facts else ""
    return f"{target} is {kind}{detail}; `hubnmt list` shows models that work here"


def check_sizes(sizes: Mapping[str, int | None], config: ModelConfig, *, target: str) -> None:
    """Check that file sizes are consistent with the config, before the download.

    Raises:
        HubError: if they are not.
    """
    for name in TOKENIZERS:
        size, most = sizes.get(name), largest_size(name, config)
        if size is not None and size > most:
            raise HubError(
                f"{target}: {name} has {size:,} bytes, but {CONFIG} describes a vocabulary of "
                f"at most {most:,} bytes; refused"
            )
    size, least, most = sizes.get(WEIGHTS), 2 * config.n_parameters, largest_size(WEIGHTS, config)
    if size is not None and not least <= size <= most:
        raise HubError(
            f"{target}: {WEIGHTS} has {size:,} bytes, but {CONFIG} describes "
            f"{config.n_parameters:,} parameters ({least:,} to {most:,} bytes); refused"
        )


def largest_size(name: str, config: ModelConfig | None) -> int:
    """Return the size limit of a file in bytes; without a config, that of any model."""
    if config is not None and name == WEIGHTS:
        return 4 * config.n_parameters + MAX_HEADER_MIB * 2**20
    if config is not None and name in TOKENIZERS:
        return max_file_bytes(max(config.src_vocab_size, config.tgt_vocab_size))
    return LIMITS_MIB[name] * 2**20


def digest_bytes(data: bytes) -> dict[str, str]:
    """Return both hashes of the Hub: `blob_id` (git) and `sha256` (LFS)."""
    git = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    return {"blob_id": git.hexdigest(), "sha256": hashlib.sha256(data).hexdigest()}


def matches(path: Path, expected: str) -> bool:
    """Return whether a file has the expected hash (40 digits: git, 64: LFS)."""
    if len(expected) == 64:
        digest = hashlib.sha256()
    else:
        digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(BLOCK_BYTES):
            digest.update(piece)
    return digest.hexdigest() == expected
