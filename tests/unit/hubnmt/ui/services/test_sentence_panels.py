"""Values of a layer, next token and beam search of one sentence: those of the real model."""

import base64
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hubnmt.errors import HubNMTError
from hubnmt.translator import Translator
from hubnmt.ui.services import decoding_steps, layer_values
from hubnmt.ui.services.learn import compute_panel, find_subject
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.subject import Subject, page_state

SRC = "Ein Hund, rennt."


@pytest.fixture
def translator(random_model: Translator) -> Translator:
    random_model.decoding = random_model.decoding.with_options(max_new_tokens=6)
    return random_model


@pytest.fixture
def registry(translator: Translator, tmp_path: Path) -> ModelRegistry:
    return ModelRegistry(lambda _: translator, {"tiny": tmp_path, "twin": tmp_path})


@pytest.fixture
def value(translator: Translator) -> dict[str, Any]:
    found = translator.translate(SRC, split=False, guard=False)
    return {"subject": page_state(SRC, "tiny", found, translator)}


def _unpack(tensor: dict[str, Any]) -> torch.Tensor:
    numbers = np.frombuffer(base64.b64decode(tensor["values"]), "<i2").astype(np.float32)
    shape = tensor["rows"], tensor["columns"]
    return torch.from_numpy(numbers.reshape(shape) / layer_values.FULL_SCALE * tensor["scale"])


@pytest.mark.parametrize("kind", ["encoder", "decoder", "cross"])
def test_packed_weights_are_those_that_the_page_shows_elsewhere(
    registry: ModelRegistry, value: dict[str, Any], translator: Translator, kind: str
):
    layer, head = (0 if kind == "encoder" else 1), 2
    figure = compute_panel(
        registry, "layer", value | {"asked": {"kind": kind, "layer": layer, "head": head}}
    )
    row = value["subject"]["candidates"][0]["rows"][0]
    maps = translator.attend(SRC, Subject.read(value["subject"], translator).candidate)
    shown = {"encoder": maps.encoder_self, "decoder": maps.decoder_self, "cross": maps.cross}
    n_shown = layer_values.MAX_SHOWN_TOKENS
    expected = shown[kind][layer, head][:n_shown, :n_shown]
    found = {name: _unpack(each) for name, each in figure["tensors"].items()}
    torch.testing.assert_close(found["weights"], expected, atol=1e-4, rtol=0)
    if expected.shape[1] == figure["keys"]["n_tokens"]:  # no key is cut off
        mixed = found["weights"] @ found["values"]
        torch.testing.assert_close(found["mixed"], mixed, atol=5e-3, rtol=0)
    sums = found["attention_in"] + found["attention_out"]
    torch.testing.assert_close(found["attention_sum"], sums, atol=5e-3, rtol=0)
    assert figure["queries"]["n_tokens"] == (
        len(maps.src_tokens) if kind == "encoder" else len(row) + 1
    )


def test_probabilities_are_the_models_and_sum_to_one(
    registry: ModelRegistry, value: dict[str, Any], translator: Translator
):
    row = value["subject"]["candidates"][0]["rows"][0]
    src_ids = translator.tokenizers.src.encode(SRC)
    (log_probs,) = translator.replay([(src_ids, row)])
    for position, expected in enumerate(log_probs):
        found = compute_panel(registry, "next", value | {"asked": {"position": position}})
        probabilities = [each["probability"] for each in found["best"]]
        assert probabilities == sorted(probabilities, reverse=True)
        assert len(probabilities) == decoding_steps.N_TOKENS
        # pad and bos are never drawn, and their probability is not given to others
        assert 0.9 < sum(probabilities) + found["rest"][0] < 1 + 1e-5
        chosen = [each for each in found["best"] if each["id"] == found["chosen"]]
        assert found["chosen"] == [*row, translator.tokenizers.tgt.eos_id][position]
        if chosen:
            assert math.log(chosen[0]["probability"]) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("options", "n_kept"),
    [({"top_k": 3}, 3), ({"temperature": 0.1}, None), ({"top_p": 1e-6}, 1), ({"top_k": 2.0}, 2)],
)
def test_options_move_the_probabilities(
    registry: ModelRegistry, value: dict[str, Any], options: dict[str, Any], n_kept: int | None
):
    found = compute_panel(registry, "next", value | {"asked": options})
    filtered = [each["filtered"] for each in found["best"]]
    assert sum(filtered) + found["rest"][1] == pytest.approx(1, abs=1e-5)
    assert filtered[0] > found["best"][0]["probability"]
    if n_kept is not None:
        assert found["n_kept"] == n_kept
        assert sum(each > 0 for each in filtered) == n_kept
        assert found["rest"][1] == 0


@pytest.mark.parametrize(
    "beam_size", [decoding_steps.BEAM_SIZES[0], 3, decoding_steps.BEAM_SIZES[-1]]
)
def test_the_tree_ends_in_what_the_model_translates(
    registry: ModelRegistry, value: dict[str, Any], translator: Translator, beam_size: int
):
    tree = compute_panel(registry, "beam", value | {"asked": beam_size})
    expected = translator.translate(SRC, split=False, guard=False, beam_size=beam_size)
    first = tree["results"][0]
    assert first["text"] == expected.text
    assert first["score"] == pytest.approx(expected.score, rel=1e-5)
    end = tree["steps"][len(tree["best"]) - 1][tree["best"][-1]]
    assert (end["piece"], end["status"]) == ("<eos>", "finished")
    assert end["score"] == pytest.approx(expected.score, rel=1e-5)
    nodes = [step[index] for step, index in zip(tree["steps"], tree["best"], strict=False)]
    assert tuple(each["piece"] for each in nodes) == expected.tgt_tokens
    log_probs = [each["log_prob"] for each in nodes]
    assert log_probs == pytest.approx(expected.tgt_log_probs, abs=1e-4)
    for earlier, step in zip(tree["steps"], tree["steps"][1:], strict=False):
        assert all(earlier[each["parent"]]["status"] == "kept" for each in step)
    assert sum(each["status"] == "kept" for each in tree["steps"][1]) <= beam_size


CROSS = {"kind": "cross", "layer": 0, "head": 0}
CHOICES = [{"layer": -1}, {"layer": True}, {"head": 3}, {"kind": "nothing"}, {"kind": ["cross"]}]
CHOICES += [{"kind": "encoder", "layer": 1}]
ASKED = [{"position": 99}, {"position": -1}, {"position": "1"}, {"temperature": 0}, {"top_k": -1}]
ASKED += [{"temperature": "hot"}, {"temperature": math.nan}, {"top_p": 0}, {"top_p": 1.5}]


@pytest.mark.parametrize(
    ("panel", "wish"),
    [
        *(("layer", {"asked": CROSS | each}) for each in CHOICES),
        *(("layer", {"asked": each}) for each in ({"kind": "cross"}, "cross")),
        *(("next", {"asked": each}) for each in ASKED),
        *(("beam", {"asked": each}) for each in (0, 1, 9, 2.5, "3", True)),
    ],
    ids=str,
)
def test_what_is_not_there_is_refused(
    registry: ModelRegistry, value: dict[str, Any], panel: str, wish: dict[str, Any]
):
    with pytest.raises(HubNMTError):
        compute_panel(registry, panel, value | wish)


def test_the_sentence_is_translated_again_by_another_model(
    registry: ModelRegistry, value: dict[str, Any]
):
    translated = value["subject"]
    assert find_subject(registry, "tiny", translated) == translated
    again = find_subject(registry, "twin", translated)
    assert again
    assert (again["model"], again["src"]) == ("twin", SRC)
