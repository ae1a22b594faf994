"""Which sentence of a source goes with which of a given translation.

Takes two texts, gives pairs of token rows, as `translate` would have translated them. Must not know
the model. Sentences are paired in order where both sides have as many; where they have not, the
whole texts are one pair, because nothing tells which sentence became two.
"""

from typing import NamedTuple

from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import MAX_TEXT_CHARS, make_plan, normalize_casing
from hubnmt.text.tokenizer import Tokenizer, single_spaced
from hubnmt.types import Candidate


class Pair(NamedTuple):
    """One sentence on both sides: ids without special tokens, and the white space behind it."""

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
    """Pair the sentences of two texts.

    Args:
        src: the source.
        tgt: its translation; of a `Candidate` exactly the tokens that were searched are taken.
        src_tokenizer: of the source.
        tgt_tokenizer: of the target.
        config: of the model.
        split: see `hubnmt.pipeline.segmentation.make_plan`.

    Raises:
        InputError: if the source has no word.
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
    said = make_plan(
        tgt,
        tgt_tokenizer,
        language=config.tgt_lang,
        max_src_tokens=MAX_TEXT_CHARS,
        split=split,
        lower_capitals=False,
    ).translatable
    if len(parts) == len(said) > 1:
        return [
            Pair(part.ids, part.space, each.ids, each.space)
            for part, each in zip(parts, said, strict=True)
        ]
    learned = normalize_casing(src, src_tokenizer)
    src_ids = parts[0].ids if len(parts) == 1 else src_tokenizer.encode(learned)
    tgt_ids = (
        said[0].ids if len(parts) == len(said) == 1 else tgt_tokenizer.encode(single_spaced(tgt))
    )
    return [Pair(src_ids, "", tgt_ids, "")]
