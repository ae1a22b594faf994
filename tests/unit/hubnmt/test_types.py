"""Translation values: the promised JSON, and nothing that changes behind one's back."""

import json

from hubnmt.types import Candidate, Translation

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
        "token_probability": TRANSLATION.token_probability,
        "warnings": ["something"],
    }
