"""What a model must surpass: scores by hand."""

import pytest

from training.release.baselines import explain_failure, trivial_scores

VALID = [
    ("Ein Hund rennt in Bonn.", "A dog runs in Bonn."),
    ("Eine Katze schläft in Bonn.", "A cat sleeps in Bonn."),
    ("Ja.", "Yes, of course it is."),
    ("Jawohl.", "Yes, of course it is."),
]


@pytest.mark.parametrize(
    ("bleu", "chrf", "reason"),
    [
        (0.1, 8.0, "'Yes, of course it is.' each time gives BLEU"),
        (90.0, 5.0, "'Yes, of course it is.' each time gives BLEU"),
        (90.0, 90.0, ""),
    ],
)
def test_a_model_must_surpass_what_needs_no_model(bleu: float, chrf: float, reason: str) -> None:
    said = explain_failure({"bleu": bleu, "chrf": chrf}, trivial_scores(VALID))
    assert reason in said
    assert bool(said) == bool(reason)


def test_copying_may_be_the_task() -> None:
    copies = [("a b c d", "a b c d"), ("e f g h i", "e f g h i")]
    record = {"bleu": 99.0, "chrf": 99.0}
    assert "copying the source gives BLEU 100.00" in explain_failure(record, trivial_scores(copies))
    assert not explain_failure(record, trivial_scores(copies, with_copies=False))
