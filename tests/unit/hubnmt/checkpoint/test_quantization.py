"""A folder of 8-bit weights is a quarter of float32, loads like any other and is checked."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from hubnmt.__main__ import main
from hubnmt.checkpoint.folder import SCALE_SUFFIX, load_model
from hubnmt.errors import ModelFolderError
from hubnmt.hub.client import HubReference
from hubnmt.hub.pull import pull
from hubnmt.translator import Translator
from tests.hub import REPO, read_folder
from tests.hub_server import HubServer

TEXTS = ["Ein Hund rennt im Schnee.", "Zwei Frauen essen an einem Tisch."]
MATRIX = "encoder.layers.0.feed_forward.linear1.weight"
VECTOR = "encoder.layers.0.feed_forward.linear1.bias"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "int8"
    assert main(["export", "de-en-multi30k", str(folder), "--to", "int8"]) == 0
    return folder


def test_an_8_bit_folder_is_small_and_translates_as_before(folder: Path, hub: HubServer):
    old, new = Translator.from_pretrained("de-en-multi30k"), Translator.from_pretrained(folder)
    assert new.stored_dtype is torch.int8
    hub.store.put(REPO, read_folder(folder))
    assert load_model(pull(HubReference(REPO))).dtype is torch.int8
    n_parameters = old.config.n_parameters
    assert (folder / "model.safetensors").stat().st_size < 1.1 * n_parameters
    assert [each.text for each in new.translate(TEXTS)] == [
        each.text for each in old.translate(TEXTS)
    ]
    stored_as = "- weights stored as: {}\n"
    assert new.card == old.card.replace(stored_as.format("float16"), stored_as.format("int8"))
    assert new.card != old.card


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({MATRIX + SCALE_SUFFIX: None}, "is missing"),
        ({MATRIX + SCALE_SUFFIX: torch.ones(3)}, "has shape"),
        ({MATRIX + SCALE_SUFFIX: torch.ones(256, dtype=torch.int8)}, "not a float type"),
        ({VECTOR: torch.ones(256, dtype=torch.int8)}, "not a float type"),
        ({VECTOR + SCALE_SUFFIX: torch.ones(1)}, "unknown tensor"),
        ({MATRIX + SCALE_SUFFIX: torch.full((256,), torch.nan)}, "NaN"),
    ],
)
def test_a_folder_with_other_tensors_is_refused(
    change: dict[str, torch.Tensor | None], problem: str, folder: Path, tmp_path: Path
):
    broken = shutil.copytree(folder, tmp_path / "broken")
    tensors = load_file(folder / "model.safetensors") | change
    kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    save_file(kept, broken / "model.safetensors")
    with pytest.raises(ModelFolderError, match=problem):
        load_model(broken)
