"""Join: parts in their places, the best combinations exactly, and a map from side to side."""

import itertools
import random

import pytest

from hubnmt.decoding import Hypothesis
from hubnmt.pipeline.assemble import Draft, best_combinations, join_draft
from hubnmt.pipeline.segmentation import make_plan
from hubnmt.pipeline.sentence import Sentence
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.types import Translation


def hypothesis(text: str, score: float, tokenizer: Tokenizer) -> Hypothesis:
    ids = tokenizer.encode(text)
    return Hypothesis(ids, score, score, (score / (len(ids) + 1),) * (len(ids) + 1))


def join(
    src: str, said: list[dict[str, float]], warnings: list[str], tokenizer: Tokenizer
) -> Translation:
    plan = make_plan(src, tokenizer, language="de", max_src_tokens=99)
    both = Tokenizers(tokenizer, tokenizer)
    sentences = [
        Sentence(
            part=part,
            tokenizers=both,
            hypotheses=[hypothesis(text, score, tokenizer) for text, score in row.items()],
            warning=warning,
        )
        for part, row, warning in zip(plan.translatable, said, warnings, strict=True)
    ]
    draft = Draft(text=src, parts=list(plan.parts), sentences=sentences, warnings=("long",))
    return join_draft(draft, n_best=3, sample=False)


SRC = "  Ein Hund.  Zwei!\n\nWer?\n"
SAID = [{"A dog.": -0.1, "One dog.": -0.6}, {"Two!": -0.2, "Both!": -0.3}, {"Who?": -0.4}]


@pytest.mark.parametrize("seed", range(6))
def test_combinations_are_those_of_trying_all(seed: int, tiny_tokenizer: Tokenizer) -> None:
    rng = random.Random(seed)
    found = [
        sorted(
            (Hypothesis([n], 0.0, rng.uniform(-3, 0), ()) for n in range(rng.randint(1, 4))),
            key=lambda each: -each.score,
        )
        for _ in range(1 + seed)
    ]
    totals = sorted((sum(e.score for e in way) for way in itertools.product(*found)), reverse=True)
    for n in (1, 3, 50):
        chosen = best_combinations(found, n)
        mine = [sum(each.score for each in choice) for choice in chosen]
        assert mine == pytest.approx(totals[:n])
        assert len({tuple(each.ids[0] for each in choice) for choice in chosen}) == len(chosen)


def test_equal_warnings_are_counted(tiny_tokenizer: Tokenizer) -> None:
    translation = join(SRC, SAID, ["odd", "", "odd"], tiny_tokenizer)
    assert translation.warnings == ("long", "odd (2 parts)")
    assert translation.text == "  A dog.  Two!\n\nWho?\n"
