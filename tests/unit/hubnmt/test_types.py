"""Translation values: the promised JSON, and nothing that changes behind one's back."""

import dataclasses
import json

import pytest

from hubnmt.types import Alternative, Candidate, PairScore, Translation

TRANSLATION = Translation(
    src="Ein Hund\n",
    text="A dog\n",
    score=-0.25,
    n_best=(Candidate("A dog\n", -0.25), Candidate("One dog\n", -1.5)),
    src_tokens=(" Ein", " Hund", "<eos>"),
    tgt_tokens=(" A", " dog", "<eos>"),
    tgt_log_probs=(-0.1, -0.4, -0.25),
    warnings=("something",),
)


def test_the_json_object_has_the_promised_keys_and_survives_json() -> None:
    """As the public interface names them: `--json` prints exactly these."""
    assert json.loads(json.dumps(TRANSLATION.to_dict())) == {
        "src": "Ein Hund\n",
        "text": "A dog\n",
        "score": -0.25,
        "n_best": [{"text": "A dog\n", "score": -0.25}, {"text": "One dog\n", "score": -1.5}],
        "src_tokens": [" Ein", " Hund", "<eos>"],
        "tgt_tokens": [" A", " dog", "<eos>"],
        "tgt_log_probs": [-0.1, -0.4, -0.25],
        "warnings": ["something"],
    }


def test_there_are_no_warnings_unless_given() -> None:
    assert dataclasses.replace(TRANSLATION, warnings=()).to_dict()["warnings"] == ()
    quiet = Translation(
        src="", text="", score=0.0, n_best=(), src_tokens=(), tgt_tokens=(), tgt_log_probs=()
    )
    assert quiet.warnings == ()


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (TRANSLATION, "text"),
        (Candidate("A dog", -0.5), "text"),
        (Alternative(piece=" dog", probability=0.5, text="A dog"), "probability"),
        (PairScore(log_prob=-1.0, perplexity=2.0, tgt_tokens=(), tgt_log_probs=()), "log_prob"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_results_cannot_be_changed(value: object, name: str) -> None:
    with pytest.raises(AttributeError):
        setattr(value, name, None)
