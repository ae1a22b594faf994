"""Prefixes over several sentences: each goes where its user saw it, and none is lost."""

import pytest

from hubnmt.pipeline.prefix import DistributedPrefix, distribute_prefix
from hubnmt.pipeline.segmentation import Plan, make_plan
from hubnmt.text.sentences import Segment
from hubnmt.text.tokenizer import Tokenizer

THREE = "Ein Hund rennt. Zwei Männer kochen! Wer lacht?"


@pytest.fixture
def plan(tiny_tokenizer: Tokenizer) -> Plan:
    """Three sentences in the first line, one in the second."""
    return plan_of(f"{THREE}\nNiemand.", tiny_tokenizer)


def plan_of(text: str, tokenizer: Tokenizer) -> Plan:
    return make_plan(text, tokenizer, language="de", max_src_tokens=99)


def bind(prefix: str, plan: Plan) -> DistributedPrefix:
    return distribute_prefix(prefix, plan, language="en")


@pytest.mark.parametrize(
    ("prefix", "said", "is_open"),
    [
        ("", [], ""),
        ("A do", [], "A do"),
        ("A dog runs.", [], "A dog runs."),
        ("A dog runs. ", [("A dog runs.", " ")], ""),
        ("A dog runs. Two", [("A dog runs.", " ")], "Two"),
        ("A dog runs.  Two men! ", [("A dog runs.", "  "), ("Two men!", " ")], ""),
        ("A dog. Two! Wh", [("A dog.", " "), ("Two!", " ")], "Wh"),
        ("A dog. Two! Who? No", [("A dog.", " "), ("Two!", " ")], "Who? No"),
        (" A dog. Two", [(" A dog.", " ")], "Two"),
        ("Dr. Smith lau", [], "Dr. Smith lau"),
        ("  ", [], "  "),
    ],
)
def test_sentences_that_have_ended_are_said_and_the_last_is_open(
    prefix: str, said: list[tuple[str, str]], is_open: str, plan: Plan
) -> None:
    bound = bind(prefix, plan)
    assert bound == DistributedPrefix(tuple(Segment(*each) for each in said), is_open)
