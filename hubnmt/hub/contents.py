"""Which files make a model on the Hub, and how large they may be.

Takes names and sizes as the Hub lists them, gives the names to fetch, or says what the repository
is instead. Must not know the network. A name that is not on the list is neither fetched nor sent,
so no listing can lead outside a folder.
"""

from collections.abc import Mapping, Sequence

from hubnmt.checkpoint import LIBRARY, MAX_CARD_MIB, MAX_JSON_MIB
from hubnmt.config import ModelConfig
from hubnmt.errors import HubError
from hubnmt.tokenizer import MAX_FILE_MIB, max_file_bytes

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
