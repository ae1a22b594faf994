"""Attention maps by token, by character and by word, and word alignments derived from them.

Byte-level tokens can be parts of characters. When tokens are grouped, weights are summed over keys
and averaged over queries, so that each row still sums to 1.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from hubnmt.text.characters import number_characters, number_words

Span = tuple[int, int]
"""(start, end); empty for tokens without text, such as `<eos>`."""


@dataclasses.dataclass(frozen=True, slots=True)
class TokenSpans:
    """A text and the spans of its tokens: one side of an attention map."""

    text: str
    """Normalized text, as the model receives it."""
    tokens: tuple[str, ...]
    """Readable pieces, with `<eos>` after each sentence."""
    chars: tuple[Span, ...]
    """Span of each token in `text`, in characters; part of a character counts as all of it."""
    utf8: tuple[Span, ...]
    """Span of each token in the UTF-8 encoding, in bytes."""

    def is_special(self, index: int) -> bool:
        """Return whether a token is `<eos>`; the space added before a text is not special."""
        start, end = self.utf8[index]
        return start == end and bool(self.tokens[index].strip())

    def group(self, number: Callable[[str], list[int]]) -> "tuple[TokenSpans, list[int]]":
        """Merge adjacent tokens that share a unit of text; return the groups and their sizes.

        `number` maps a text to the unit number of each code point.
        """
        units = [*number(self.text), -1]
        sizes: list[int] = []
        last = None  # last unit of the current group; None if it is closed
        for index, (start, end) in enumerate(self.chars):
            if self.is_special(index):
                last = None
                sizes.append(1)
                continue
            # The space added before a text has an empty span at the first word.
            first = units[start]
            if last is not None and first <= last:
                sizes[-1] += 1
            else:
                sizes.append(1)
            last = max(first, units[max(start, end - 1)])
        return self._merge(sizes), sizes

    def _merge(self, sizes: Sequence[int]) -> "TokenSpans":
        labels, chars, utf8, begin = [], [], [], 0
        for size in sizes:
            first, last = begin, begin + size - 1
            begin += size
            start, end = self.chars[first][0], self.chars[last][1]
            label = self.tokens[first]
            if size > 1:
                # The space added before a sentence is part of its first token, not of the text.
                is_first = first == 0 or self.is_special(first - 1)
                label = " " * is_first + self.text[start:end]
            labels.append(label)
            chars.append((start, end))
            utf8.append((self.utf8[first][0], self.utf8[last][1]))
        return TokenSpans(self.text, tuple(labels), tuple(chars), tuple(utf8))

    def word_span(self, index: int) -> Span:
        """Return the span of a group without leading white space, in characters."""
        start, end = self.chars[index]
        words = self.text[start:end]
        return end - len(words.lstrip()) if words.strip() else start, end


class WordLink(NamedTuple):
    """A target word and the source word it is aligned to."""

    src: Span
    """Span in the source text, in characters."""
    tgt: Span
    """Span in the target text, in characters."""
    weight: float
    """Attention weight, 0 to 1."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Attention:
    """Attention weights of every head for one or several sentence pairs; each row sums to 1.

    Sentences are translated separately, so the maps of several sentences are block-diagonal.
    """

    src: TokenSpans
    """S source tokens."""
    tgt: TokenSpans
    """T target tokens. Row t of a map belongs to the step that generated token t."""
    cross: Tensor
    """(L, H, T, S)."""
    encoder_self: Tensor
    """(L, H, S, S)."""
    decoder_self: Tensor
    """(L, H, T, T); column k is the input of step k: bos, then the first T - 1 target tokens."""
    tgt_log_probs: tuple[float, ...]
    """Log-probability of each target token, in nats."""
    alignment_head: tuple[int, int] | None = None
    """(layer, head) of `cross` that aligns words best, as stored with the model."""
    alignment_shift: int = 0
    """1 if that head aligns a token one step after it is generated, as the input; else 0."""

    def _repr_html_(self) -> str:
        from hubnmt.attention.explorer import explorer_html  # which imports this module

        return explorer_html(self)

    @property
    def src_tokens(self) -> tuple[str, ...]:
        """S readable source pieces, `<eos>` last."""
        return self.src.tokens

    @property
    def tgt_tokens(self) -> tuple[str, ...]:
        """T readable target pieces, `<eos>` last."""
        return self.tgt.tokens

    def by_character(self) -> Self:
        """Merge tokens that are parts of one character; others are unchanged."""
        return self._group(number_characters)

    def by_word(self) -> Self:
        """Merge tokens into words; punctuation and symbols form separate groups.

        Words that share a token form one group.
        """
        return self._group(number_words)

    def shifted(self, shift: int) -> Self:
        """Use the cross-attention of step t + shift for token t, or of the last step."""
        later = torch.cat(
            (self.cross[:, :, shift:], self.cross[:, :, -1:].expand_as(self.cross[:, :, :shift])),
            dim=2,
        )
        return dataclasses.replace(self, cross=later)

    def word_alignment(
        self, head: tuple[int, int] | None = None, *, shift: int = 0
    ) -> list[WordLink]:
        """Link each target word to the source word with the highest weight, in target order.

        Words that attend most to `<eos>` have no link.

        Args:
            head: (layer, head) of `cross`; by default the alignment head with its own shift, or
                the mean of all heads if the model has none.
            shift: 0 or 1, see `alignment_shift`; used only if a head is given.
        """
        if head is None:
            head, shift = self.alignment_head, self.alignment_shift
        words = self.shifted(shift).by_word()
        weights = words.cross.mean((0, 1)) if head is None else words.cross[head]  # (T, S)
        links = []
        for row, (weight, column) in enumerate(
            zip(*(x.tolist() for x in weights.max(-1)), strict=True)
        ):
            if not words.tgt.is_special(row) and not words.src.is_special(column):
                spans = words.src.word_span(column), words.tgt.word_span(row)
                links.append(WordLink(*spans, weight))
        return links

    def _group(self, number: Callable[[str], list[int]]) -> Self:
        src, src_sizes = self.src.group(number)
        tgt, tgt_sizes = self.tgt.group(number)
        input_sizes = [1, *tgt_sizes[:-1]]  # the input starts with bos and lacks the last eos
        log_probs = torch.tensor(self.tgt_log_probs, dtype=torch.float64)
        return dataclasses.replace(
            self,
            src=src,
            tgt=tgt,
            cross=_pool(self.cross, tgt_sizes, src_sizes),
            encoder_self=_pool(self.encoder_self, src_sizes, src_sizes),
            decoder_self=_pool(self.decoder_self, tgt_sizes, input_sizes),
            tgt_log_probs=tuple(float(part.sum()) for part in torch.split(log_probs, tgt_sizes)),
        )


def _pool(weights: Tensor, query_sizes: list[int], key_sizes: list[int]) -> Tensor:
    keys = torch.stack([part.sum(-1) for part in torch.split(weights, key_sizes, dim=-1)], dim=-1)
    return torch.stack([part.mean(-2) for part in torch.split(keys, query_sizes, dim=-2)], dim=-2)


def side_by_side(
    maps: Sequence[Attention], src_spaces: Sequence[str], tgt_spaces: Sequence[str]
) -> Attention:
    """Join the maps of the sentences of one text into block-diagonal maps.

    The `src_spaces` and `tgt_spaces` are the white space after each sentence.
    """
    if len(maps) == 1:
        return maps[0]
    return Attention(
        src=_concatenate([part.src for part in maps], src_spaces),
        tgt=_concatenate([part.tgt for part in maps], tgt_spaces),
        cross=_blocks([part.cross for part in maps]),
        encoder_self=_blocks([part.encoder_self for part in maps]),
        decoder_self=_blocks([part.decoder_self for part in maps]),
        tgt_log_probs=tuple(value for part in maps for value in part.tgt_log_probs),
        alignment_head=maps[0].alignment_head,
        alignment_shift=maps[0].alignment_shift,
    )


def _concatenate(sides: Sequence[TokenSpans], spaces: Sequence[str]) -> TokenSpans:
    text, n_bytes = "", 0
    tokens: list[str] = []
    chars: list[Span] = []
    utf8: list[Span] = []
    for side, space in zip(sides, spaces, strict=True):
        tokens += side.tokens
        chars += [(start + len(text), end + len(text)) for start, end in side.chars]
        utf8 += [(start + n_bytes, end + n_bytes) for start, end in side.utf8]
        text += side.text + space
        n_bytes += side.utf8[-1][1] + len(space.encode())
    return TokenSpans(text, tuple(tokens), tuple(chars), tuple(utf8))


def _blocks(maps: Sequence[Tensor]) -> Tensor:
    """Join (L, H, Qi, Ki) maps along the diagonal: (L, H, sum Qi, sum Ki)."""
    n_layers, n_heads = maps[0].shape[:2]
    n_queries, n_keys = (sum(part.shape[axis] for part in maps) for axis in (2, 3))
    joined = torch.zeros(n_layers, n_heads, n_queries, n_keys)
    row = column = 0
    for part in maps:
        joined[:, :, row : row + part.shape[2], column : column + part.shape[3]] = part
        row, column = row + part.shape[2], column + part.shape[3]
    return joined
