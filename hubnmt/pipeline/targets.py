"""Given target text: a prefix of the translation, or a whole translation to be scored.

A prefix is one line and applies to the first source line. Sentences that end within it are taken
unchanged as translations of the first source sentences, so that a user can correct a later
sentence; the model continues the last one. The sentences of a whole translation are paired with
those of its source in order if both sides have the same number; otherwise the whole texts form one
pair, because the alignment is unknown.
"""

from collections.abc import Sequence
from typing import NamedTuple

from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from hubnmt.pipeline.segmentation import (
    MAX_TEXT_CHARS,
    Part,
    SegmentedText,
    encode_whole,
    segment_text,
)
from hubnmt.text.characters import normalize, single_spaced
from hubnmt.text.sentences import Segment, split_sentences
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.types import Candidate


def distribute_prefix(
    prefix: str, segmented: SegmentedText, *, language: str
) -> tuple[list[Segment], str]:
    """Distribute a prefix of one line over the parts of a segmented text.

    Returns:
        complete sentences with their white space, which translate the first parts; and the forced
        prefix of the next part, empty for none.
    """
    text = normalize(prefix)
    sentences = split_sentences(text, language)
    if len(sentences) > 1 and not sentences[0].text:  # leading white space joins the first sentence
        lead, first = sentences[:2]
        sentences[:2] = [Segment(lead.space + first.text, first.space)]
    ended = [sentence for sentence in sentences if sentence.text.strip() and sentence.space]
    complete = ended[: max(segmented.n_in_first_line - 1, 0)]
    n_chars = sum(len(sentence.text) + len(sentence.space) for sentence in complete)
    return complete, text[n_chars:]


class SentenceIds(NamedTuple):
    """A sentence pair: ids without special tokens, and the white space after each sentence."""

    src_ids: list[int]
    src_space: str
    tgt_ids: list[int]
    tgt_space: str
    protected: tuple[str, ...] = ()
    """Spans that are encoded as placeholders on both sides, for `Tokenizer.with_spans`."""

    def tgt_pieces(self, tokenizers: Tokenizers) -> list[str]:
        """Return the readable pieces of the target, `<eos>` last."""
        tokenizer = tokenizers.tgt.with_spans(self.protected)
        return tokenizer.readable([*self.tgt_ids, tokenizer.eos_id])


def pair_sentences(
    src: str,
    tgt: str | Candidate,
    tokenizers: Tokenizers,
    *,
    config: ModelConfig,
    split: bool = True,
) -> list[SentenceIds]:
    """Pair the sentences of two texts; for a `Candidate`, exactly its `tgt_ids` are used.

    Raises:
        InputError: if the source has no words.
    """
    segmented = segment_text(
        src,
        tokenizers.src,
        language=config.src_lang,
        max_src_tokens=config.max_src_tokens,
        split=split,
    )
    parts = segmented.translatable
    if not parts:
        raise InputError("the source is empty; give at least one word")

    def pair(part: Part, tgt: str | Sequence[int], tgt_space: str) -> SentenceIds:
        matched, tgt_ids = match_part(part, tgt, tokenizers)
        return SentenceIds(matched.ids, part.space, tgt_ids, tgt_space, matched.protected)

    if isinstance(tgt, Candidate):
        if len(tgt.tgt_ids) == len(parts):
            given = zip(parts, tgt.tgt_ids, strict=True)
            return [pair(part, ids, part.space) for part, ids in given]
        tgt = tgt.text
    tgt_parts = segment_text(
        tgt,
        tokenizers.tgt,
        language=config.tgt_lang,
        max_src_tokens=MAX_TEXT_CHARS,
        split=split,
        is_lowered=False,
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
    if tokenizers.keep_spans(part.ids, ids):
        return part, ids
    return unprotect(part, tokenizers.src), encode(())


def unprotect(part: Part, tokenizer: Tokenizer) -> Part:
    """Return a part with its protected spans as text."""
    if not part.protected:
        return part
    text = tokenizer.with_spans(part.protected).decode(part.ids)
    return part._replace(ids=tokenizer.encode(single_spaced(text)), protected=())


def unprotect_for_prefix(part: Part, prefix: str, tokenizers: Tokenizers) -> Part:
    """Return a part with its spans as text if the prefix ends within one, or has too many."""
    if not (prefix and part.protected):
        return part
    ids = tokenizers.tgt.with_spans(part.protected).encode(prefix)
    counts = tokenizers.tgt.count_placeholders(ids)
    is_surplus = not counts <= tokenizers.src.count_placeholders(part.ids)
    ends_within = any(
        prefix.endswith(span[:length]) for span in part.protected for length in range(1, len(span))
    )
    return unprotect(part, tokenizers.src) if is_surplus or ends_within else part
