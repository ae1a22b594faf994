"""Byte-level BPE tokenizer, based on the `tokenizers` library.

Pre-tokenization keeps combining marks and joiners within words. Normalisation:

1. Unicode NFC.
2. The six Malayalam chillus written as consonant + virama + ZWJ become the atomic letters of
   Unicode 5.1, which no normalisation form does. Other joiners are kept.
3. One space is prepended, so that a word is tokenized alike at the start of a line and within it;
   decoding removes exactly one.

Apart from these, decoding is lossless. Sources: Sennrich et al. 2016
(https://arxiv.org/abs/1508.07909) for BPE, Wang et al. 2019 (https://arxiv.org/abs/1909.03341) for
byte-level BPE in translation.
"""

import copy
import functools
import itertools
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import tokenizers
from tokenizers import models, trainers

from hubnmt.errors import ConfigError, ModelFolderError
from hubnmt.text.protected_spans import PLACEHOLDERS, protect
from hubnmt.text.textfile import read_small
from hubnmt.text.tokenizer_file import MAX_FILE_MIB, SPLITTER, assemble, max_file_bytes, parse

SPECIAL_PIECES = ("<pad>", "<bos>", "<eos>")
"""Special tokens, never produced from text: the string `<eos>` in a text is ordinary text."""

MIN_VOCAB_SIZE = len(SPECIAL_PIECES) + 256

ROUND_TRIP = "Grüße, naïve café — മലയാളം ക്ഷ, हिन्दी, العربية 👩‍👩‍👧 <eos>\t 2026"
"""Text for round-trip checks: several scripts, joiners, a tab, the name of a special token."""


def _byte_alphabet() -> dict[str, int]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in set(printable)]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + rank): byte for rank, byte in enumerate(hidden)}


BYTE_OF_CHAR = _byte_alphabet()
"""Byte of each printable character of GPT-2's byte-level alphabet."""


class Tokenizer:
    """A byte-level BPE vocabulary with its merges."""

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        """Wrap a byte-level BPE of the `tokenizers` library.

        Raises:
            ModelFolderError: if it is not a byte-level BPE with the special tokens of hubnmt.
        """
        vocab: dict[str, int] = inner.get_vocab()
        needed = {*SPECIAL_PIECES, *BYTE_OF_CHAR}
        is_in_row = sorted(vocab.values()) == list(range(len(vocab)))
        is_bytes = set("".join(vocab.keys() - {*SPECIAL_PIECES})) <= BYTE_OF_CHAR.keys()
        if not (is_in_row and is_bytes and needed <= vocab.keys()):
            raise ModelFolderError(
                f"tokenizer: its ids are not 0 to n - 1, or its pieces not {SPECIAL_PIECES}, the "
                "256 bytes and their merges; not a hubnmt tokenizer"
            )
        self._inner, self._vocab = inner, vocab
        self.pad_id, self.bos_id, self.eos_id = (vocab[piece] for piece in SPECIAL_PIECES)
        self._spans: tuple[str, ...] = ()
        self._span_bytes: dict[int, bytes] = {}
        self._piece_bytes = [
            b"" if piece in SPECIAL_PIECES else bytes(BYTE_OF_CHAR[char] for char in piece)
            for piece in self.pieces
        ]

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int, *, show_progress: bool = False) -> Self:
        """Learn the merges from sentences.

        Of the `vocab_size` pieces 3 are special, 256 are bytes and the rest merges, of which small
        corpora may give fewer.

        Raises:
            ConfigError: if `vocab_size` is smaller than the special and byte pieces.
        """
        if vocab_size < MIN_VOCAB_SIZE:
            raise ConfigError(f"vocab_size = {vocab_size} must be at least {MIN_VOCAB_SIZE}")
        learner = assemble(models.BPE())
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            special_tokens=list(SPECIAL_PIECES),
            initial_alphabet=sorted(BYTE_OF_CHAR),
            show_progress=show_progress,
        )
        learner.train_from_iterator(texts, trainer)
        learned = json.loads(learner.to_str())["model"]
        merges = [tuple(pair) for pair in learned["merges"]]
        # A new tokenizer has no "added tokens", which would be matched within ordinary text.
        return cls(assemble(models.BPE(vocab=learned["vocab"], merges=merges)))

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, vocab_size: int | None = None) -> Self:
        """Load a tokenizer file; the expected `vocab_size` bounds the memory for parsing.

        Raises:
            ModelFolderError: if the file is missing, invalid, too large, or not a hubnmt tokenizer.
        """
        path = Path(path)
        if not path.is_file():
            raise ModelFolderError(f"{path}: no such file; pull or save the model again")
        most = MAX_FILE_MIB * 2**20 if vocab_size is None else max_file_bytes(vocab_size)
        content = read_small(path, most)
        try:
            return cls(parse(content, vocab_size))
        except ModelFolderError as error:
            raise ModelFolderError(f"{path}: {error}") from None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the tokenizer in the JSON format of the `tokenizers` library."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    def to_json(self) -> str:
        """Return the tokenizer in the JSON format of `save`."""
        return self._inner.to_str(pretty=False)

    @property
    def vocab_size(self) -> int:
        """Number of pieces, including special ones."""
        return len(self._vocab)

    @property
    def pieces(self) -> list[str]:
        """The pieces by id, in GPT-2's byte-level alphabet, so without white space."""
        return sorted(self._vocab, key=self._vocab.__getitem__)

    @property
    def has_placeholders(self) -> bool:
        """Whether each placeholder is a piece, alone and after a space."""
        return len(self.placeholder_ids) == 2 * len(PLACEHOLDERS)

    @functools.cached_property
    def placeholder_ids(self) -> dict[int, str]:
        """Map the ids of pieces that are a placeholder to the placeholder."""
        texts = (piece.decode(errors="replace").strip() for piece in self._piece_bytes)
        return {token_id: text for token_id, text in enumerate(texts) if text in PLACEHOLDERS}

    def count_placeholders(self, ids: Iterable[int]) -> Counter[str]:
        """Count each placeholder among the ids."""
        found = map(self.placeholder_ids.get, ids)
        return Counter(mark for mark in found if mark is not None)

    def with_spans(self, spans: Sequence[str]) -> Self:
        """Return a tokenizer that encodes these spans, of `choose_spans`, as placeholders.

        Its pieces for placeholders have the bytes of the spans they stand for, so decoding restores
        the spans; pieces of unused placeholders are empty. A vocabulary without placeholders is
        returned unchanged.
        """
        if not self.has_placeholders:
            return self
        restoring = copy.copy(self)  # which shares the vocabulary
        restoring._spans = tuple(spans)
        span_of = dict(zip(PLACEHOLDERS, spans, strict=False))
        restoring._span_bytes = {
            token_id: self._piece_bytes[token_id].decode().replace(mark, span_of[mark]).encode()
            if span_of.get(mark)
            else b""
            for token_id, mark in self.placeholder_ids.items()
        }
        return restoring

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without bos and eos (added by `hubnmt.model.batching`)."""
        text = protect(text, self._spans)
        return self._inner.encode(text, add_special_tokens=False).ids if text else []

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, encoded in parallel."""
        return [e.ids for e in self._inner.encode_batch(list(texts), add_special_tokens=False)]

    @functools.cached_property
    def merges(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Map each merged pair of ids to its rank (0 first) and the id of the result."""
        vocab, learned = self._vocab, json.loads(self._inner.to_str())["model"]["merges"]
        return {
            (vocab[left], vocab[right]): (rank, vocab[left + right])
            for rank, (left, right) in enumerate(learned)
        }

    def byte_ids(self) -> list[int]:
        """Return the ids of the bytes 0 to 255."""
        chars = {byte: char for char, byte in BYTE_OF_CHAR.items()}
        return [self._vocab[chars[byte]] for byte in range(256)]

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids; bytes that are not valid UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", errors="replace")

    def decode_line(self, ids: Iterable[int]) -> str:
        """Return the text of a sentence; line breaks become spaces, as its source has none."""
        return " ".join(self.decode(ids).splitlines())

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the UTF-8 bytes of the ids, without special tokens."""
        spans, pieces = self._span_bytes, self._piece_bytes
        raw = b"".join([spans[n] if n in spans else pieces[n] for n in ids])
        return raw.removeprefix(b" ")

    def piece_bytes(self, token_id: int) -> bytes:
        """Return the bytes of one id; empty for special tokens."""
        return self._span_bytes.get(token_id, self._piece_bytes[token_id])

    def readable(self, ids: Sequence[int]) -> list[str]:
        """Return the pieces of ids as text; in hexadecimal if they are not whole characters.

        A leading space marks the start of a word.
        """
        special = dict(zip((self.pad_id, self.bos_id, self.eos_id), SPECIAL_PIECES, strict=True))
        pieces = []
        for token_id in ids:
            raw = self.piece_bytes(token_id)
            try:
                pieces.append(special.get(token_id) or raw.decode())
            except UnicodeDecodeError:
                pieces.append(f"<{raw.hex(' ').upper()}>")
        return pieces

    def offsets(self, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Return the (start, end) of each token in the UTF-8 encoding of the normalised text.

        The prepended space is not counted. A special token has an empty span.
        """
        spans = []
        start = 0
        shift = 1 if b"".join(map(self.piece_bytes, ids)).startswith(b" ") else 0
        for token_id in ids:
            end = start + len(self.piece_bytes(token_id))
            spans.append((max(start - shift, 0), max(end - shift, 0)))
            start = end
        return spans

    def pre_tokens(self, text: str) -> list[str]:
        """Pre-tokenize a text; merges never cross these boundaries."""
        assert self._inner.normalizer is not None
        normal = self._inner.normalizer.normalize_str(protect(text, self._spans)) if text else ""
        span_of = str.maketrans(dict(zip(PLACEHOLDERS, self._spans, strict=False)))
        return [word.translate(span_of) for word, _ in SPLITTER.pre_tokenize_str(normal)]

    def merge_steps(self, word: str) -> list[list[bytes]]:
        """Return the pieces of one of `pre_tokens` after each merge, lowest rank first.

        They begin with single bytes and end with those of `encode`. Quadratic in the length of the
        word, so meant for visualisation rather than encoding.
        """
        byte_ids, merges = self.byte_ids(), self.merges
        ids = [byte_ids[byte] for byte in word.encode("utf-8")]
        steps = [ids]
        while ranked := [
            (merges[pair], at) for at, pair in enumerate(itertools.pairwise(ids)) if pair in merges
        ]:
            (_, merged), at = min(ranked)
            ids = [*ids[:at], merged, *ids[at + 2 :]]
            steps.append(ids)
        return [[self._piece_bytes[token_id] for token_id in step] for step in steps]


JOINT_FILE, TWO_FILES = "tokenizer.json", ("tokenizer_src.json", "tokenizer_tgt.json")
"""File names of a joint vocabulary, and of separate ones."""


class Tokenizers(NamedTuple):
    """The tokenizers of a model; one with a joint vocabulary has the same object twice."""

    src: Tokenizer
    tgt: Tokenizer

    def with_spans(self, spans: Sequence[str]) -> "Tokenizers":
        """Return both tokenizers for a sentence with protected spans."""
        return Tokenizers(*(tokenizer.with_spans(spans) for tokenizer in self))

    def keep_spans(self, src_ids: Iterable[int], tgt_ids: Iterable[int]) -> bool:
        """Return whether a translation has each placeholder as often as its source."""
        return self.src.count_placeholders(src_ids) == self.tgt.count_placeholders(tgt_ids)

    def save(self, folder: Path) -> None:
        """Write one file for a joint vocabulary, otherwise two."""
        if self.src is self.tgt:
            self.src.save(folder / JOINT_FILE)
        else:
            for name, tokenizer in zip(TWO_FILES, self, strict=True):
                tokenizer.save(folder / name)
