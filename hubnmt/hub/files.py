"""The files of a model on the Hub: their names and size limits."""

from collections.abc import Mapping

from hubnmt.checkpoint.description import CARD_FILE, LIBRARY, MAX_CARD_MIB
from hubnmt.checkpoint.files import MAX_JSON_MIB
from hubnmt.config import ModelConfig
from hubnmt.errors import HubError
from hubnmt.text.tokenizer_file import MAX_FILE_MIB, max_file_bytes

CONFIG, WEIGHTS = "config.json", "model.safetensors"
JOINT_TOKENIZER, TWO_TOKENIZERS = "tokenizer.json", ("tokenizer_src.json", "tokenizer_tgt.json")
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
    JOINT_TOKENIZER: MAX_FILE_MIB,
    **dict.fromkeys(TWO_TOKENIZERS, MAX_FILE_MIB),
    CARD_FILE: MAX_CARD_MIB,
    METRICS: MAX_RECORD_MIB,
    SAMPLES: MAX_RECORD_MIB,
}
"""Allowed files without the weights, whose limit follows from the config."""

ALLOWED = [*LIMITS_MIB, WEIGHTS]


def check_files(
    sizes: Mapping[str, int | None], *, target: str, library: str | None = None
) -> None:
    """Check that a repository or folder has the files of a model, by their sizes in bytes.

    `target` is its name in messages, `library` its `library_name` on the Hub.

    Raises:
        HubError: if it is not a hubnmt model, or a file is too large or of unknown size.
    """
    missing = [name for name in (CONFIG, WEIGHTS) if name not in sizes]
    if JOINT_TOKENIZER not in sizes and not set(TWO_TOKENIZERS) <= set(sizes):
        missing.append(JOINT_TOKENIZER)
    is_foreign = library not in (None, LIBRARY)
    if is_foreign or missing:
        kind = f"a model of the library {library!r}" if is_foreign else "not a hubnmt model"
        lack = f": it has no {' and no '.join(missing)}" if missing else ""
        raise HubError(
            f"{target} is {kind}{lack}; sharded and pickled weights are not supported; "
            "`hubnmt list` shows models that work here"
        )
    for name in [name for name in ALLOWED if name in sizes]:
        size = sizes[name]
        if size is None:
            raise HubError(f"{target}: the Hub does not state the size of {name}; refused")
        if name != WEIGHTS:
            _check_size(name, size, 0, LIMITS_MIB[name] * 2**20, target)


def check_sizes(sizes: Mapping[str, int | None], config: ModelConfig, *, target: str) -> None:
    """Raise a `HubError` before the download if file sizes do not fit the config."""
    tokenizer_bytes = max_file_bytes(max(config.src_vocab_size, config.tgt_vocab_size))
    for name in (JOINT_TOKENIZER, *TWO_TOKENIZERS):
        _check_size(name, sizes.get(name) or 0, 0, tokenizer_bytes, target)
    n = config.n_parameters  # a byte each in int8, four in float32
    _check_size(WEIGHTS, sizes.get(WEIGHTS) or 0, n, 4 * n + MAX_HEADER_MIB * 2**20, target)


def _check_size(name: str, size: int, least: int, most: int, target: str) -> None:
    if not least <= size <= most:
        raise HubError(
            f"{target}: {name} has {size:,} bytes, but a valid one for this model has {least:,} to "
            f"{most:,}; refused"
        )
