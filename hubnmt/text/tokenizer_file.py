"""The stages of the tokenizer around its merges, and its file, which may be untrusted."""

import json
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers

from hubnmt.errors import ModelFolderError, first_few, shorten
from hubnmt.text.characters import NORMAL_STEPS

WORD_PATTERN = (
    r" ?[\p{L}\p{M}\x{200C}\x{200D}]+"  # a word with its marks and joiners, and the space before it
    r"| ?\p{N}"  # single digits: numbers are copied digit by digit
    r"| ?[^\s\p{L}\p{M}\p{N}\x{200C}\x{200D}]+"  # a run of punctuation or symbols
    r"|\s+(?!\S)"  # trailing white space
    r"|\s+"
)
"""Based on the GPT-2 pattern, which splits Malayalam words at combining marks; this one keeps
`\\p{M}`, ZWJ and ZWNJ within the word."""

SPLITTER = pre_tokenizers.Split(tokenizers.Regex(WORD_PATTERN), behavior="isolated")

MAX_FILE_MIB = 64
"""Size limit of a tokenizer file; 1,000,000 pieces take about 40 MiB."""

PIECE_BYTES = 512
"""Upper bound of the mean file size per piece and its merge; typical are 60 to 90."""

PIECE_COMMAS = 6
"""Upper bound of the mean number of commas per piece in the file: 3 separators, the rest text."""


def max_file_bytes(vocab_size: int) -> int:
    """Return the size limit of a tokenizer file for a vocabulary size."""
    return min(MAX_FILE_MIB * 2**20, 2**16 + PIECE_BYTES * vocab_size)


def assemble(model: models.BPE) -> tokenizers.Tokenizer:
    """Combine a BPE model with normalizer, pre-tokenizer and decoder."""
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = normalizers.Sequence([*NORMAL_STEPS, normalizers.Prepend(" ")])
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [SPLITTER, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    inner.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return inner


def _check_rules(settings: dict[str, Any], expected: dict[str, Any]) -> None:
    """Refuse other settings than those of hubnmt, which would tokenize text differently."""
    found, wanted = (
        # Without unset values, as versions of the library differ in whether they write them.
        {key: value for key, value in (part | _model_rules(part)).items() if value}
        for part in (settings, expected)
    )
    keys = (found.keys() | wanted.keys()) - {"model", "model.vocab", "model.merges"}
    others = sorted(key[:80] for key in keys if found.get(key) != wanted.get(key))
    if others:
        raise ModelFolderError(
            f"settings differ ({first_few(others, ', ')}); not a hubnmt tokenizer"
        )


def _model_rules(settings: dict[str, Any]) -> dict[str, Any]:
    return {f"model.{key}": value for key, value in settings["model"].items()}


def parse(content: bytes, vocab_size: int | None) -> tokenizers.Tokenizer:
    """Parse a tokenizer file with the settings of hubnmt.

    Only vocabulary and merges are passed to the library, which may panic (not an `Exception`) on
    settings in an untrusted file.

    Raises:
        ModelFolderError: if it is not a hubnmt tokenizer; without the name of the file.
    """
    try:
        if vocab_size is not None and content.count(b",") > PIECE_COMMAS * vocab_size + 10_000:
            raise ModelFolderError(f"more pieces or merges than the {vocab_size:,} of config.json")
        settings = json.loads(content.decode("utf-8"))
        if not (isinstance(settings, dict) and isinstance(settings.get("model"), dict)):
            raise ModelFolderError("not a tokenizer file (it has no model)")
        expected: dict[str, Any] = json.loads(assemble(models.BPE()).to_str())
        _check_rules(settings, expected)
        learned = {key: settings["model"].get(key) for key in ("vocab", "merges")}
        sizes = [len(values) for values in learned.values()]
        # Two merges may give the same piece, so there may be more merges than pieces.
        if vocab_size is not None and (sizes[0] > vocab_size or sizes[1] > 2 * vocab_size):
            raise ModelFolderError(
                f"{sizes[0]:,} pieces and {sizes[1]:,} merges, but config.json says {vocab_size:,}"
            )
        expected["model"] |= learned
        return tokenizers.Tokenizer.from_str(json.dumps(expected))
    except ModelFolderError:
        raise
    except Exception as error:  # the library raises bare Exception for invalid files
        raise ModelFolderError(f"not a tokenizer file ({shorten(error)})") from None
