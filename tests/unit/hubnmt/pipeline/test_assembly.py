"""Drafts: the best combinations exactly, and warnings with their number."""

import itertools
import random

import pytest

from hubnmt.decoding import Hypothesis
from hubnmt.pipeline.pipeline import Draft, best_combinations, join_draft
from hubnmt.pipeline.segmentation import Sentence, make_plan
from hubnmt.text.tokenizer import Tokenizer, Tokenizers


@pytest.mark.parametrize("seed", range(6))
def test_combinations_are_those_of_trying_all(seed: int) -> None:
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
    src = "  Ein Hund.  Zwei!\n\nWer?\n"
    plan = make_plan(src, tiny_tokenizer, language="de", max_src_tokens=99)
    both = Tokenizers(tiny_tokenizer, tiny_tokenizer)
    copied = [Hypothesis(part.ids, -1.0, -1.0, (-1.0,)) for part in plan.translatable]
    sentences = [
        Sentence(part=part, tokenizers=both, hypotheses=[found], warning=warning)
        for part, found, warning in zip(plan.translatable, copied, ["odd", "", "odd"], strict=True)
    ]
    draft = Draft(text=src, parts=list(plan.parts), sentences=sentences, warnings=("long",))
    translation = join_draft(draft, n_best=3, sample=False)
    assert translation.warnings == ("long", "odd (2 parts)")
    assert translation.text == src
