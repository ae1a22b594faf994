"""What every head looked at, token by token, and the same by characters and by words.

Takes weights with the place of each token in its text, gives coarser weights and word alignments.
Must not know the model. Tokens are pieces of bytes, so one character may be several tokens; a group
of tokens sums what is looked at (keys) and averages who looks (queries), so that each row still
sums to 1.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from hubnmt.text.graphemes import number_characters, number_words

Span = tuple[int, int]
"""(start, end); an empty one where a token says nothing, as `<eos>` does."""


@dataclasses.dataclass(frozen=True, slots=True)
class TokenSpans:
    """One side of an attention map: a text and where its tokens stand."""

    text: str
    """As the model saw it: normalised."""
    tokens: tuple[str, ...]
    """Readable; `<eos>` behind each sentence."""
    chars: tuple[Span, ...]
    """Of each token in `text`, characters; a token that is part of a character has all of it."""
    utf8: tuple[Span, ...]
    """Of each token in the UTF-8 form, bytes."""

    def is_special(self, index: int) -> bool:
        """Tell `<eos>` from a space that was put in front of the text: both say nothing."""
        start, end = self.utf8[index]
        return start == end and bool(self.tokens[index].strip())

    def group(self, number: Callable[[str], list[int]]) -> "tuple[TokenSpans, list[int]]":
        """Merge neighbours that share a unit of text.

        Args:
            number: gives each code point of a text the number of its unit.

        Returns:
            the groups, and how many tokens each has.
        """
        units = [*number(self.text), -1]
        sizes: list[int] = []
        last = None  # the unit that the newest group ends in; None if nothing may join it
        for index, (start, end) in enumerate(self.chars):
            if self.is_special(index):
                last = None
                sizes.append(1)
                continue
            # The space put in front of a text has an empty span where the first word begins.
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
                # The space put in front of a sentence is in its first token, not in the text.
                opens = first == 0 or self.is_special(first - 1)
                label = " " * opens + self.text[start:end]
            labels.append(label)
            chars.append((start, end))
            utf8.append((self.utf8[first][0], self.utf8[last][1]))
        return TokenSpans(self.text, tuple(labels), tuple(chars), tuple(utf8))

    def word_span(self, index: int) -> Span:
        """Return the place of a group without the white space in front of it, characters."""
        start, end = self.chars[index]
        words = self.text[start:end]
        return end - len(words.lstrip()) if words.strip() else start, end


class WordLink(NamedTuple):
    """A word of the translation and the source word it was read from."""

    src: Span
    """In the source text, characters."""
    tgt: Span
    """In the target text, characters."""
    weight: float
    """Share of the attention, 0 to 1."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Attention:
    """Every head's weights for one sentence pair, or several side by side; each row sums to 1.

    Sentences are translated apart, so nothing looks from one into another: of several, the maps
    are blocks along the diagonal, and zero elsewhere.
    """

    src: TokenSpans
    """S source tokens."""
    tgt: TokenSpans
    """T target tokens. Row t belongs to the step that chose token t."""
    cross: Tensor
    """(L, H, T, S)."""
    encoder_self: Tensor
    """(L, H, S, S)."""
    decoder_self: Tensor
    """(L, H, T, T); column k is the input of step k: bos, then the first T - 1 target tokens."""
    tgt_log_probs: tuple[float, ...]
    """Of each target token, nats."""
    alignment_head: tuple[int, int] | None = None
    """(layer, head) of `cross` that aligns words best, as stored with the model."""
    alignment_shift: int = 0
    """1 if that head aligns a token not while it is chosen, but one step later, as the input."""

    @property
    def src_tokens(self) -> tuple[str, ...]:
        """S readable source pieces, `<eos>` last."""
        return self.src.tokens

    @property
    def tgt_tokens(self) -> tuple[str, ...]:
        """T readable target pieces, `<eos>` last."""
        return self.tgt.tokens

    def by_character(self) -> Self:
        """Merge tokens until none is a part of a character; a token of many characters stays."""
        return self._group(number_characters)

    def by_word(self) -> Self:
        """Merge tokens into words; punctuation and symbols are groups of their own.

        A token that reaches into two words makes one group of both, because its weight belongs to
        neither alone.
        """
        return self._group(number_words)

    def shifted(self, shift: int) -> Self:
        """Give token t the cross-attention of step t + shift; the last ones keep their own."""
        later = torch.cat(
            (self.cross[:, :, shift:], self.cross[:, :, -1:].expand_as(self.cross[:, :, :shift])),
            dim=2,
        )
        return dataclasses.replace(self, cross=later)

    def word_alignment(
        self, head: tuple[int, int] | None = None, *, shift: int = 0
    ) -> list[WordLink]:
        """Link each word of the translation to the source word it looked at most.

        Args:
            head: (layer, head) of `cross`; by default the one stored with the model with its own
                shift, or where none is, the mean of all heads.
            shift: 0 or 1, see `alignment_shift`; counts if a head is given.

        Returns:
            links in the order of the translation; a word that looked most at `<eos>`, which is how
            a head says "nothing", has none.
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
        input_sizes = [1, *tgt_sizes][: len(tgt_sizes)]  # bos in front, the last eos is no input
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
    """Sum over the keys of each group, average over its queries: (L, H, Q, K) to (L, H, q, k)."""
    keys = torch.stack([part.sum(-1) for part in torch.split(weights, key_sizes, dim=-1)], dim=-1)
    return torch.stack([part.mean(-2) for part in torch.split(keys, query_sizes, dim=-2)], dim=-2)


def side_by_side(
    maps: Sequence[Attention], src_spaces: Sequence[str], tgt_spaces: Sequence[str]
) -> Attention:
    """Join the maps of the sentences of one text.

    Args:
        maps: one or more, of one model.
        src_spaces: white space behind each source sentence.
        tgt_spaces: white space behind each target sentence.
    """
    if len(maps) == 1:
        return maps[0]
    return Attention(
        src=_concatenate([each.src for each in maps], src_spaces),
        tgt=_concatenate([each.tgt for each in maps], tgt_spaces),
        cross=_blocks([each.cross for each in maps]),
        encoder_self=_blocks([each.encoder_self for each in maps]),
        decoder_self=_blocks([each.decoder_self for each in maps]),
        tgt_log_probs=tuple(value for each in maps for value in each.tgt_log_probs),
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
    """Put (L, H, Qi, Ki) maps along the diagonal of one: (L, H, sum Qi, sum Ki)."""
    n_layers, n_heads = maps[0].shape[:2]
    n_queries, n_keys = (sum(each.shape[axis] for each in maps) for axis in (2, 3))
    joined = torch.zeros(n_layers, n_heads, n_queries, n_keys)
    row = column = 0
    for each in maps:
        joined[:, :, row : row + each.shape[2], column : column + each.shape[3]] = each
        row, column = row + each.shape[2], column + each.shape[3]
    return joined
