"""The second try: only where something is odd, only once, and only if it is better."""

from collections.abc import Sequence

import pytest

from hubnmt.config import DecodingConfig
from hubnmt.decoding import Hypothesis, Search, run_search
from hubnmt.pipeline import fallback
from hubnmt.pipeline.fallback import RETRY_BEAM_SIZE, RETRY_NGRAM_SIZE, fallback_search
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

ROWS = [[40, 41], [50, 51], [60, 61]]


def hypothesis(*ids: int) -> Hypothesis:
    return Hypothesis(list(ids), -1.0, -1.0, (-1.0,))


class Searching:
    """Answers with other tokens, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[list[int]], DecodingConfig]] = []

    def __call__(self, rows: Sequence[Sequence[int]], decoding: DecodingConfig) -> Search:
        yield []
        self.asked.append(([list(row) for row in rows], decoding))
        return [[hypothesis(99, row[0])] for row in rows]


@pytest.fixture
def search() -> Searching:
    return Searching()


def run(
    monkeypatch: pytest.MonkeyPatch,
    search: Searching,
    tokenizer: Tokenizer,
    odd: dict[int, list[str]],
    *,
    decoding: DecodingConfig | None = None,
) -> tuple[list[list[Hypothesis]], list[str]]:
    """Find odd whatever begins with these tokens."""
    monkeypatch.setattr(
        fallback, "find_degenerate", lambda *, tgt_ids, **_: odd.get(tgt_ids[0], [])
    )
    found = [[hypothesis(row[0] + 100)] for row in ROWS]
    return run_search(
        fallback_search(
            ROWS,
            found,
            decoding or DecodingConfig(),
            search,
            tokenizers=Tokenizers(tokenizer, tokenizer),
        )
    )


def test_where_nothing_is_odd_nothing_is_searched(
    search: Searching, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, notes = run(monkeypatch, search, tiny_tokenizer, {})
    assert search.asked == []
    assert [each[0].ids[0] for each in kept] == [140, 150, 160]
    assert notes == ["", "", ""]


def test_only_odd_rows_are_searched_again_and_the_better_is_kept(
    search: Searching, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = {150: ["is odd", "is bad"], 99: ["is odd"]}
    kept, notes = run(monkeypatch, search, tiny_tokenizer, odd)
    ((rows, _),) = search.asked
    assert rows == [ROWS[1]]
    assert [each[0].ids[0] for each in kept] == [140, 99, 160]
    said = "the first translation is odd and is bad: translated again with other settings"
    assert notes == ["", said, ""]


@pytest.mark.parametrize("second", [["is bad"], ["is bad", "is odd"]], ids=str)
def test_a_second_try_no_better_is_dropped(
    second: list[str],
    search: Searching,
    tiny_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept, notes = run(monkeypatch, search, tiny_tokenizer, {140: ["is odd"], 99: second})
    assert kept[0][0].ids == [140]
    assert notes == ["the translation is odd", "", ""]
    assert len(search.asked) == 1


def test_other_settings_are_wider_and_what_was_asked_for_stays(
    search: Searching, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = DecodingConfig(beam_size=2, length_penalty=0.3, sample=True, n_best=20)
    run(monkeypatch, search, tiny_tokenizer, {140: ["is odd"]}, decoding=asked)
    wide = DecodingConfig(beam_size=12, no_repeat_ngram_size=2, max_new_tokens=5)
    run(monkeypatch, search, tiny_tokenizer, {140: ["is odd"]}, decoding=wide)
    first, second = (decoding for _, decoding in search.asked)
    assert first == DecodingConfig(
        beam_size=20, length_penalty=0.3, n_best=20, no_repeat_ngram_size=RETRY_NGRAM_SIZE
    )
    assert second == wide
    assert DecodingConfig().beam_size < RETRY_BEAM_SIZE
