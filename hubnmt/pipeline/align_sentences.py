"""Align the sentences of a source with those of a given translation.

Sentences are paired in order if both sides have the same number; otherwise the whole texts form one
pair, because the alignment is unknown.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import MAX_TEXT_CHARS, Part, encode_whole, make_plan
from hubnmt.pipeline.sentence import keeps_spans, unprotect
from hubnmt.text.normalization import single_spaced
from hubnmt.text.tokenizer import Tokenizers
from hubnmt.types import Candidate


class Pair(NamedTuple):
    """A sentence pair: ids without special tokens, and the white space after each sentence."""

    src_ids: list[int]
    src_space: str
    tgt_ids: list[int]
    tgt_space: str
    protected: tuple[str, ...] = ()
    """Spans that are encoded as placeholders on both sides, for `Tokenizer.with_spans`."""


def pair_sentences(
    src: str,
    tgt: str | Candidate,
    tokenizers: Tokenizers,
    *,
    config: ModelConfig,
    split: bool = True,
) -> list[Pair]:
    """Align the sentences of two texts; for a `Candidate`, exactly its `tgt_ids` are used.

    Raises:
        InputError: if the source has no words.
    """
    plan = make_plan(
        src,
        tokenizers.src,
        language=config.src_lang,
        max_src_tokens=config.max_src_tokens,
        split=split,
    )
    parts = plan.translatable
    if not parts:
        raise InputError("the source is empty; give at least one word")

    def pair(part: Part, tgt: str | Sequence[int], tgt_space: str) -> Pair:
        matched, tgt_ids = match_part(part, tgt, tokenizers)
        return Pair(matched.ids, part.space, tgt_ids, tgt_space, matched.protected)

    if isinstance(tgt, Candidate):
        if len(tgt.tgt_ids) == len(parts):
            given = zip(parts, tgt.tgt_ids, strict=True)
            return [pair(part, ids, part.space) for part, ids in given]
        tgt = tgt.text
    tgt_parts = make_plan(
        tgt,
        tokenizers.tgt,
        language=config.tgt_lang,
        max_src_tokens=MAX_TEXT_CHARS,
        split=split,
        lower_capitals=False,
    ).translatable
    texts = [single_spaced(tgt[slice(*each.span)]) for each in tgt_parts]
    if len(parts) == len(texts) > 1:
        spaces = [each.space for each in tgt_parts]
        return [pair(*each) for each in zip(parts, texts, spaces, strict=True)]
    part = parts[0] if len(parts) == 1 else encode_whole(src, tokenizers.src)
    is_one = len(parts) == len(texts) == 1
    return [pair(part, texts[0] if is_one else single_spaced(tgt), "")._replace(src_space="")]


def match_part(
    part: Part, tgt: str | Sequence[int], tokenizers: Tokenizers
) -> tuple[Part, list[int]]:
    """Encode a given translation of a part, or its ids, with the part's placeholders.

    Returns:
        the part and the target ids; the part has its spans as text if the translation does not keep
        all of them.
    """

    def encode(protected: Sequence[str]) -> list[int]:
        if isinstance(tgt, str):
            return tokenizers.tgt.with_spans(protected).encode(tgt)
        return list(tgt)

    ids = encode(part.protected)
    if keeps_spans(part, ids, tokenizers):
        return part, ids
    return unprotect(part, tokenizers.src), encode(())
