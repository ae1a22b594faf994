"""Align the sentences of a source with those of a given translation.

Sentences are paired in order if both sides have the same number; otherwise the whole texts form one
pair, because the alignment is unknown.
"""

from typing import NamedTuple

from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import MAX_TEXT_CHARS, make_plan, normalize_casing
from hubnmt.text.tokenizer import Tokenizers, single_spaced
from hubnmt.types import Candidate


class Pair(NamedTuple):
    """A sentence pair: ids without special tokens, and the white space after each sentence."""

    src_ids: list[int]
    src_space: str
    tgt_ids: list[int]
    tgt_space: str


def pair_sentences(
    src: str,
    tgt: str | Candidate,
    tokenizers: Tokenizers,
    *,
    config: ModelConfig,
    split: bool = True,
) -> list[Pair]:
    """Align the sentences of two texts.

    Args:
        src: the source.
        tgt: its translation; for a `Candidate`, exactly its `tgt_ids` are used.
        tokenizers: source and target tokenizer.
        config: model configuration.
        split: see `hubnmt.pipeline.segmentation.make_plan`.

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
    if isinstance(tgt, Candidate):
        if len(tgt.tgt_ids) == len(parts):
            return [
                Pair(part.ids, part.space, list(ids), part.space)
                for part, ids in zip(parts, tgt.tgt_ids, strict=True)
            ]
        tgt = tgt.text
    tgt_parts = make_plan(
        tgt,
        tokenizers.tgt,
        language=config.tgt_lang,
        max_src_tokens=MAX_TEXT_CHARS,
        split=split,
        lower_capitals=False,
    ).translatable
    if len(parts) == len(tgt_parts) > 1:
        return [
            Pair(part.ids, part.space, each.ids, each.space)
            for part, each in zip(parts, tgt_parts, strict=True)
        ]
    normalized = normalize_casing(src, tokenizers.src)
    src_ids = parts[0].ids if len(parts) == 1 else tokenizers.src.encode(normalized)
    tgt_ids = (
        tgt_parts[0].ids
        if len(parts) == len(tgt_parts) == 1
        else tokenizers.tgt.encode(single_spaced(tgt))
    )
    return [Pair(src_ids, "", tgt_ids, "")]
