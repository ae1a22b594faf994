"""Align the sentences of a source with those of a given translation.

Sentences are paired in order if both sides have the same number; otherwise the whole texts form one
pair, because the alignment is unknown.
"""

from typing import NamedTuple

from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import MAX_TEXT_CHARS, make_plan, normalize_casing
from hubnmt.text.tokenizer import Tokenizer, single_spaced
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
    *,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    config: ModelConfig,
    split: bool = True,
) -> list[Pair]:
    """Align the sentences of two texts.

    Args:
        src: the source.
        tgt: its translation; for a `Candidate`, exactly its `tgt_ids` are used.
        src_tokenizer: source tokenizer.
        tgt_tokenizer: target tokenizer.
        config: model configuration.
        split: see `hubnmt.pipeline.segmentation.make_plan`.

    Raises:
        InputError: if the source has no words.
    """
    plan = make_plan(
        src,
        src_tokenizer,
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
        tgt_tokenizer,
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
    normalized = normalize_casing(src, src_tokenizer)
    src_ids = parts[0].ids if len(parts) == 1 else src_tokenizer.encode(normalized)
    tgt_ids = (
        tgt_parts[0].ids
        if len(parts) == len(tgt_parts) == 1
        else tgt_tokenizer.encode(single_spaced(tgt))
    )
    return [Pair(src_ids, "", tgt_ids, "")]
