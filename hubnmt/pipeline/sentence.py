"""A sentence in translation: its part of the source, its tokenizers and its hypotheses."""

import dataclasses
from collections.abc import Sequence

from hubnmt.decoding import Hypothesis
from hubnmt.decoding.types import make_hypothesis
from hubnmt.inference.scoring import Pairs
from hubnmt.pipeline.engine import Engine
from hubnmt.pipeline.segmentation import Part
from hubnmt.text.normalization import single_spaced
from hubnmt.text.tokenizer import Tokenizer, Tokenizers


@dataclasses.dataclass(kw_only=True, slots=True)
class Sentence:
    """A translatable part of a text."""

    part: Part
    tokenizers: Tokenizers
    """Tokenizers that restore the protected spans of the part."""
    prefix: str = ""
    """Forced prefix; empty for none."""
    is_given: bool = False
    """Whether the prefix contains the whole translation."""
    hypotheses: list[Hypothesis] = dataclasses.field(default_factory=list)
    """Best first; empty before the search."""
    is_cut: bool = False
    """Whether the best hypothesis reached the length limit."""
    warning: str = ""
    is_replaced: bool = False
    """Whether the hypotheses are those of fallback decoding."""

    @property
    def src(self) -> str:
        """The source as the model reads it."""
        return self.tokenizers.src.decode(self.part.ids)

    @property
    def text(self) -> str:
        """The text of the best hypothesis."""
        return self.decode(self.hypotheses[0])

    def decode(self, hypothesis: Hypothesis) -> str:
        """Return the text of a hypothesis; its line breaks become spaces."""
        return decode_line(hypothesis.ids, self.tokenizers.tgt)


def decode_line(ids: Sequence[int], tokenizer: Tokenizer) -> str:
    """Decode the ids of a part; line breaks become spaces, as a part of the source has none."""
    return " ".join(tokenizer.decode(ids).splitlines())


def rescore(engine: Engine, pairs: Pairs, *, length_penalty: float) -> list[Hypothesis]:
    """Return the target ids of each pair with the model's scores."""
    scored = engine.score(pairs) if pairs else []
    return [
        make_hypothesis(ids, log_probs, length_penalty)
        for (_, ids), log_probs in zip(pairs, scored, strict=True)
    ]


def keeps_spans(part: Part, tgt_ids: Sequence[int], tokenizers: Tokenizers) -> bool:
    """Return whether a translation has each placeholder as often as its source."""
    wanted = tokenizers.src.count_placeholders(part.ids)
    return wanted == tokenizers.tgt.count_placeholders(tgt_ids)


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
