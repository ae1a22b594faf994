"""The second search: only where something is odd, only once, and only if it is better."""

from collections.abc import Sequence

import pytest

from hubnmt.config import DecodingConfig
from hubnmt.decoding import Hypothesis, Search, run_search
from hubnmt.pipeline.fallback import fallback_search
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

FINE = [40, 41, 42]
LOOP = [70] * 20
ROWS = [[50, 51, 52], [60, 61, 62]]


class Searching:
    """Answers with the same tokens each time, and records the calls."""

    def __init__(self, answer: list[int]) -> None:
        self.answer = answer
        self.calls: list[tuple[list[list[int]], DecodingConfig]] = []

    def __call__(self, rows: Sequence[Sequence[int]], decoding: DecodingConfig) -> Search:
        yield []
        self.calls.append(([list(row) for row in rows], decoding))
        return [[hypothesis(self.answer)] for _ in rows]


def hypothesis(ids: list[int]) -> Hypothesis:
    return Hypothesis(ids, -1.0, -1.0, (-1.0,))


def run(
    found: list[list[int]], search: Searching, tokenizer: Tokenizer, **decoding: object
) -> tuple[list[list[int]], list[str]]:
    """Search again where need be; return the ids kept and the notes."""
    kept, notes = run_search(
        fallback_search(
            ROWS,
            [[hypothesis(ids)] for ids in found],
            DecodingConfig(**decoding),
            search,
            tokenizers=Tokenizers(tokenizer, tokenizer),
        )
    )
    return [best.ids for best, *_ in kept], notes


@pytest.mark.parametrize(
    ("answer", "kept", "note"),
    [
        (FINE, FINE, "the first translation repeats itself: translated again with other settings"),
        ([80] * 20, LOOP, "the translation repeats itself"),
    ],
    ids=["better", "no better"],
)
def test_only_odd_rows_are_searched_again_and_the_better_is_kept(
    answer: list[int], kept: list[int], note: str, tiny_tokenizer: Tokenizer
) -> None:
    search = Searching(answer)
    assert run([FINE, LOOP], search, tiny_tokenizer) == ([FINE, kept], ["", note])
    ((rows, _),) = search.calls
    assert rows == ROWS[1:]
