"""Text to token ids and back: byte-level BPE that respects words in every script.

Takes a string, gives ids, the bytes behind each id, and byte offsets into the normalised text. Must
not know tensors or the model. The merges are learned and applied by the `tokenizers` library; what
is ours is where words begin and end, and the normalisation:

1. Unicode NFC.
2. The six Malayalam chillus written as consonant + virama + ZWJ become their own letters (Unicode
   5.1 made them so, but no normalisation form unifies the spellings). No ZWJ or ZWNJ is dropped.
3. One space is put in front, so that a word is the same piece at the start of a line and inside
   it; decoding takes exactly one away.

Apart from that any text comes back exactly, byte for byte. Source: Sennrich et al. 2016
(https://arxiv.org/abs/1508.07909) for BPE, Wang et al. 2019 (https://arxiv.org/abs/1909.03341) for
bytes in translation.
"""

import functools
import itertools
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from hubnmt.errors import ConfigError, InputError, ModelFolderError, first_few, shorten
from hubnmt.text.textfile import read_small

SPECIAL_PIECES = ("<pad>", "<bos>", "<eos>")
"""In the vocabulary, but never produced by text: the string `<eos>` in a text stays a string."""

CHILLUS = {
    "\u0d23\u0d4d\u200d": "\u0d7a",
    "\u0d28\u0d4d\u200d": "\u0d7b",
    "\u0d30\u0d4d\u200d": "\u0d7c",
    "\u0d32\u0d4d\u200d": "\u0d7d",
    "\u0d33\u0d4d\u200d": "\u0d7e",
    "\u0d15\u0d4d\u200d": "\u0d7f",
}

WORD_PATTERN = (
    r" ?[\p{L}\p{M}\x{200C}\x{200D}]+"  # a word with its marks and joiners, and the space before it
    r"| ?\p{N}"  # one digit at a time: numbers are copied digit by digit
    r"| ?[^\s\p{L}\p{M}\p{N}\x{200C}\x{200D}]+"  # a run of punctuation or symbols
    r"|\s+(?!\S)"  # white space that ends the text
    r"|\s+"
)
"""The GPT-2 pattern stops at every combining mark, which cuts one Malayalam word into many; this
one keeps `\\p{M}`, ZWJ and ZWNJ inside the word."""

MIN_VOCAB_SIZE = len(SPECIAL_PIECES) + 256
MAX_FILE_MIB = 64
"""A tokenizer file larger than this is refused: 1,000,000 pieces take about 40 MiB."""
PIECE_BYTES = 512
"""Most that a piece and its merge may take in the file, on average; ours take 60 to 90."""
PIECE_COMMAS = 6
"""Most commas for a piece in the file, on average; 3 stand between values, others are text."""

ROUND_TRIP = "Grüße, naïve café — മലയാളം ക്ഷ, हिन्दी, العربية 👩‍👩‍👧 <eos>\t 2026"
"""What a sound tokenizer gives back as it was: scripts, joiners, a tab, a special piece's name."""


def max_file_bytes(vocab_size: int) -> int:
    """Say how large a file with so many pieces may be."""
    return min(MAX_FILE_MIB * 2**20, 2**16 + PIECE_BYTES * vocab_size)


def _byte_alphabet() -> dict[str, int]:
    """Map each printable stand-in of the byte-level alphabet to its byte (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(printable)]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + rank): byte for rank, byte in enumerate(hidden)}


BYTE_OF_CHAR = _byte_alphabet()


_NORMAL_STEPS = [
    # The library's NFC, not Python's: the two follow different versions of Unicode.
    normalizers.NFC(),
    *(normalizers.Replace(spelled, letter) for spelled, letter in CHILLUS.items()),
]
_NORMALIZER = normalizers.Sequence(_NORMAL_STEPS)
_SPLITTER = pre_tokenizers.Split(tokenizers.Regex(WORD_PATTERN), behavior="isolated")


def normalize(text: str) -> str:
    """Return the text as the model sees it: NFC, chillus unified.

    Raises:
        InputError: for half a surrogate pair, which is no character and has no UTF-8 form.
    """
    try:
        return _NORMALIZER.normalize_str(text)
    except (TypeError, UnicodeEncodeError):
        raise InputError(
            "the text has half a surrogate pair in it, which is no character"
        ) from None


def single_spaced(text: str) -> str:
    """Return the text as models learn it: each run of white space is one space, none around it.

    A no-break space, a tab or a second space are pieces that no model has met in training.
    """
    return " ".join(text.split())


def _assemble(model: models.BPE) -> tokenizers.Tokenizer:
    """Put normaliser, word pattern and byte alphabet around the merges."""
    inner = tokenizers.Tokenizer(model)
    inner.normalizer = normalizers.Sequence([*_NORMAL_STEPS, normalizers.Prepend(" ")])
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            _SPLITTER,
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    inner.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return inner


def _rules(settings: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    """Return all that decides how text is cut, apart from vocabulary and merges.

    What is off or empty is left out: versions of the library differ in whether they write it.
    """
    model = {("model", key): value for key, value in settings["model"].items()}
    rules = {(key,): value for key, value in settings.items()} | model
    learned = {("model",), ("model", "vocab"), ("model", "merges")}
    return {path: value for path, value in rules.items() if value and path not in learned}


def _our_settings() -> dict[str, Any]:
    """Return what a file of ours says, no pieces in it."""
    settings: dict[str, Any] = json.loads(_assemble(models.BPE()).to_str())
    return settings


def _check_rules(settings: dict[str, Any]) -> None:
    """Refuse rules that are not ours: they would cut text differently, and nothing would say so.

    Raises:
        ModelFolderError: naming those that differ.
    """
    found, ours = _rules(settings), _rules(_our_settings())
    others = [".".join(path) for path in ours if found.get(path) != ours[path]]
    others += sorted(".".join(path)[:80] for path in set(found) - set(ours))
    if others:
        raise ModelFolderError(
            f"{first_few(others, ', ')}: not as hubnmt writes it; not a hubnmt tokenizer"
        )


def _check_number(content: bytes, vocab_size: int) -> None:
    """Refuse far more values than a vocabulary has: parsing 64 MiB of brackets takes gigabytes.

    Raises:
        ModelFolderError: not yet naming the file.
    """
    if content.count(b",") > PIECE_COMMAS * vocab_size + 10_000:
        raise ModelFolderError(f"far more pieces or merges than the {vocab_size:,} it should have")


def _parse(content: bytes, vocab_size: int | None) -> tokenizers.Tokenizer:
    """Read a file whose rules are ours.

    The library may panic over a stranger's rules, which is no `Exception`: it gets to see our own,
    and of the file the vocabulary and the merges alone.

    Raises:
        ModelFolderError: if it is no tokenizer, or another kind; not yet naming the file.
    """
    try:
        if vocab_size is not None:
            _check_number(content, vocab_size)
        settings = json.loads(content.decode("utf-8"))
        if not (isinstance(settings, dict) and isinstance(settings.get("model"), dict)):
            raise ModelFolderError("not a tokenizer file (it has no model)")
        _check_rules(settings)
        learned = {key: settings["model"].get(key) for key in ("vocab", "merges")}
        sizes = [len(values) for values in learned.values()]
        # Now and then two merges make one piece, so there may be a few more than pieces.
        if vocab_size is not None and (sizes[0] > vocab_size or sizes[1] > 2 * vocab_size):
            raise ModelFolderError(
                f"{sizes[0]:,} pieces and {sizes[1]:,} merges, but config.json says {vocab_size:,}"
            )
        ours = _our_settings()
        ours["model"] |= learned
        return tokenizers.Tokenizer.from_str(json.dumps(ours))
    except ModelFolderError:
        raise
    except Exception as error:  # the library raises bare Exception for every kind of bad file
        raise ModelFolderError(f"not a tokenizer file ({shorten(error)})") from None


class Tokenizer:
    """One vocabulary with its merges: `encode`, `decode`, and the bytes behind every id."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        """Wrap a byte-level BPE of the `tokenizers` library.

        Raises:
            ModelFolderError: if it is another kind of tokenizer.
        """
        vocab: dict[str, int] = inner.get_vocab()
        if sorted(vocab.values()) != list(range(len(vocab))):
            raise ModelFolderError("tokenizer: ids are not 0 to n - 1; not a hubnmt tokenizer")
        missing = [piece for piece in SPECIAL_PIECES if piece not in vocab]
        if missing:
            raise ModelFolderError(f"tokenizer: no {', '.join(missing)}; not a hubnmt tokenizer")
        unsaid = [byte for char, byte in BYTE_OF_CHAR.items() if char not in vocab]
        if unsaid:
            raise ModelFolderError(
                f"tokenizer: no piece for {len(unsaid)} of the 256 bytes, such as "
                f"0x{unsaid[0]:02X}; not a hubnmt tokenizer"
            )
        self._inner = inner
        self.pad_id, self.bos_id, self.eos_id = (vocab[piece] for piece in SPECIAL_PIECES)
        self._piece_bytes = [b""] * len(vocab)
        for piece, token_id in vocab.items():
            if piece in SPECIAL_PIECES:
                continue
            if any(char not in BYTE_OF_CHAR for char in piece):
                raise ModelFolderError(f"tokenizer: {piece!r} is no byte-level piece")
            self._piece_bytes[token_id] = self._bytes_of(piece)

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int, *, show_progress: bool = False) -> Self:
        """Learn merges from text (the training split only).

        Args:
            texts: sentences, as many as there are.
            vocab_size: pieces in all: 3 special, 256 bytes, the rest merges. Small texts may end
                with fewer.
            show_progress: draw the library's progress bars on standard error.

        Raises:
            ConfigError: if `vocab_size` leaves no room for the bytes.
        """
        if vocab_size < MIN_VOCAB_SIZE:
            raise ConfigError(f"vocab_size = {vocab_size} must be at least {MIN_VOCAB_SIZE}")
        learner = _assemble(models.BPE())
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(SPECIAL_PIECES),
            initial_alphabet=sorted(BYTE_OF_CHAR),
            show_progress=show_progress,
        )
        learner.train_from_iterator(texts, trainer)
        learned = json.loads(learner.to_str())["model"]
        merges = [tuple(pair) for pair in learned["merges"]]
        # A fresh tokenizer knows no "added tokens", which would be matched inside ordinary text.
        return cls(_assemble(models.BPE(vocab=learned["vocab"], merges=merges)))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, vocab_size: int | None = None) -> Self:
        """Read a tokenizer file.

        Args:
            path: of the file.
            vocab_size: how many pieces it should have; a file with more is refused before it is
                parsed, which would take memory.

        Raises:
            ModelFolderError: if the file is missing, torn, too large, or another kind of tokenizer.
        """
        path = Path(path)
        if not path.is_file():
            raise ModelFolderError(f"{path}: no such file; pull or save the model again")
        most = MAX_FILE_MIB * 2**20 if vocab_size is None else max_file_bytes(vocab_size)
        content = read_small(path, most)
        try:
            return cls(_parse(content, vocab_size))
        except ModelFolderError as error:
            raise ModelFolderError(f"{path}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the tokenizer as one JSON file that the `tokenizers` library also reads."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    def to_json(self) -> str:
        """Return what `save` writes: all that decides how text is cut."""
        return self._inner.to_str(pretty=False)

    @property
    def vocab_size(self) -> int:
        """Number of pieces, special ones included."""
        return len(self._piece_bytes)

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without bos and eos (`batching` adds those)."""
        return self._inner.encode(text, add_special_tokens=False).ids if text else []

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of many texts, using all cores."""
        return [e.ids for e in self._inner.encode_batch(list(texts), add_special_tokens=False)]

    def merges(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return all merges: ids of two neighbours to rank (lowest first) and id of the whole."""
        vocab: dict[str, int] = self._inner.get_vocab()
        learned = json.loads(self._inner.to_str())["model"]["merges"]
        return {
            (vocab[left], vocab[right]): (rank, vocab[left + right])
            for rank, (left, right) in enumerate(learned)
        }

    def byte_ids(self) -> list[int]:
        """Return the ids of the 256 single bytes, in their order."""
        vocab: dict[str, int] = self._inner.get_vocab()
        chars = {byte: char for char, byte in BYTE_OF_CHAR.items()}
        return [vocab[chars[byte]] for byte in range(256)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids; bytes that are not valid UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the UTF-8 bytes of the ids, special tokens left out."""
        return b"".join(map(self._piece_bytes.__getitem__, ids)).removeprefix(b" ")

    def piece_bytes(self, token_id: int) -> bytes:
        """Return the bytes behind one id; empty for the special tokens."""
        return self._piece_bytes[token_id]

    def offsets(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Locate each token in the UTF-8 bytes of the normalised text.

        The pieces are the text, so offsets are running lengths; the space put in front is no part
        of the text and counts for nothing. A special token is an empty span.

        Returns:
            (start, end) in bytes for each id.
        """
        spans = []
        start = 0
        shift = 1 if ids and b"".join(map(self._piece_bytes.__getitem__, ids))[:1] == b" " else 0
        for token_id in ids:
            end = start + len(self._piece_bytes[token_id])
            spans.append((max(start - shift, 0), max(end - shift, 0)))
            start = end
        return spans

    def pre_tokens(self, text: str) -> list[str]:
        """Split a text as the merges see it: no merge crosses these borders."""
        assert self._inner.normalizer is not None
        normal = self._inner.normalizer.normalize_str(text) if text else ""
        return [word for word, _ in _SPLITTER.pre_tokenize_str(normal)]

    def merge_steps(self, word: str) -> list[list[bytes]]:
        """Show how a word becomes pieces: one merge a step, of the pair that was learned first.

        Every step copies the word, so this is for showing words, not for encoding text.

        Args:
            word: one of `pre_tokens`.

        Returns:
            the single bytes at first, then the pieces after each merge; the last are those that
            `encode` gives.
        """
        pieces = [bytes([byte]) for byte in word.encode("utf-8")]
        steps = [pieces]
        while True:
            pairs = enumerate(itertools.pairwise(pieces))
            ranked = [(self._merge_rank[p], at) for at, p in pairs if p in self._merge_rank]
            if not ranked:
                return steps
            _, at = min(ranked)
            pieces = [*pieces[:at], pieces[at] + pieces[at + 1], *pieces[at + 2 :]]
            steps.append(pieces)

    @functools.cached_property
    def _merge_rank(self) -> dict[tuple[bytes, bytes], int]:
        """When each pair was learned, 0 first."""
        merges = json.loads(self._inner.to_str())["model"]["merges"]
        return {
            (self._bytes_of(left), self._bytes_of(right)): rank
            for rank, (left, right) in enumerate(merges)
        }

    @staticmethod
    def _bytes_of(piece: str) -> bytes:
        return bytes(BYTE_OF_CHAR[char] for char in piece)
