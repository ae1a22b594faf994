"""Checkpoint: what is saved comes back equal; what is broken is named; nothing a user has is lost.

A broken folder, however it is broken, gives one `ModelFolderError`: one line with the file in it.
"""

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from hubnmt.checkpoint.files import repair_folder
from hubnmt.checkpoint.folder import StoredModel, load_model, save_model
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ModelFolderError
from hubnmt.model.transformer import OLD_NAMES, Transformer
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from tests.hub import change_weights

CARD = "---\nlanguage: [de, en]\n---\n# Grüße 🐕\n"
FILES = {"README.md", "config.json", "decoding.json", "model.safetensors", "tokenizer.json"}


@pytest.fixture
def joint(tiny_stored: StoredModel) -> StoredModel:
    """One vocabulary, all three tables one."""
    decoding = DecodingConfig(beam_size=3, length_penalty=0.7)
    return dataclasses.replace(tiny_stored, decoding=decoding, card=CARD)


@pytest.fixture
def separate(tiny_config: ModelConfig, tiny_texts: list[str]) -> StoredModel:
    """Two vocabularies of 280 and 290 pieces, no table shared."""
    config = dataclasses.replace(
        tiny_config,
        src_vocab_size=280,
        tgt_vocab_size=290,
        share_embeddings=False,
        tie_output=False,
        norm_order="post",
        alignment_head=(1, 2),
    )
    return StoredModel(
        model=Transformer(config).eval(),
        tokenizers=Tokenizers(Tokenizer.train(tiny_texts, 280), Tokenizer.train(tiny_texts, 290)),
        decoding=DecodingConfig(),
    )


@pytest.fixture
def folder(joint: StoredModel, tmp_path: Path) -> Path:
    """A good folder to break."""
    save_model(tmp_path / "models" / "good", joint)
    return tmp_path / "models" / "good"


def logits_of(model: Transformer) -> Tensor:
    generator = torch.Generator().manual_seed(5)
    src_ids = torch.randint(3, 280, (2, 5), generator=generator)
    tgt_in = torch.randint(3, 280, (2, 7), generator=generator)
    with torch.no_grad():
        return model(src_ids, tgt_in, torch.zeros(2, 5, dtype=torch.bool))  # type: ignore[no-any-return]


def snapshot(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_save_and_load_give_equal_logits(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stored: StoredModel = request.getfixturevalue(kind)
    save_model(tmp_path / "deep" / "down", stored)
    loaded = load_model(tmp_path / "deep" / "down")
    save_model(tmp_path / "again", loaded)
    assert snapshot(tmp_path / "again") == snapshot(tmp_path / "deep" / "down")
    assert torch.equal(logits_of(loaded.model), logits_of(stored.model))
    assert loaded.model.config == stored.model.config
    assert loaded.decoding == stored.decoding
    assert loaded.card == stored.card
    assert not loaded.model.training
    text = "Grüße, മഞ്ഞിൽ!"
    assert loaded.tokenizers.src.encode(text) == stored.tokenizers.src.encode(text)
    assert loaded.tokenizers.tgt.encode(text) == stored.tokenizers.tgt.encode(text)


def test_tied_tables_stay_one_storage_and_are_written_once(folder: Path) -> None:
    model = load_model(folder).model
    assert model.output_proj.weight is model.tgt_embedding.weight
    assert model.tgt_embedding.weight is model.src_embedding.weight
    weights = load_file(folder / "model.safetensors")
    assert sum(tensor.numel() for tensor in weights.values()) == model.config.n_parameters
    assert not {"output_proj.weight", "tgt_embedding.weight"} & set(weights)


def test_a_folder_of_an_earlier_version_loads(joint: StoredModel, folder: Path) -> None:
    settings = joint.decoding.to_dict() | {"prefix": "A dog"}
    (folder / "decoding.json").write_text(json.dumps(settings))
    weights = load_file(folder / "model.safetensors")
    for old, new in OLD_NAMES.items():
        weights = {name.replace(f".{new}.", f".{old}."): each for name, each in weights.items()}
    assert "encoder.layers.0.frame_self.norm.weight" in weights
    save_file(weights, folder / "model.safetensors")
    loaded = load_model(folder)
    assert torch.equal(logits_of(loaded.model), logits_of(joint.model))
    assert loaded.decoding == joint.decoding


Break = Callable[[Path], object]


def set_keys(name: str, **values: Any) -> Break:
    def edit(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")

    return edit


def other_vocabulary(folder: Path) -> None:
    Tokenizer.train(["ein kleiner Hund"], 264).save(folder / "tokenizer.json")


def lone_side(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "tokenizer_src.json")


CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"

BROKEN: dict[str, tuple[Break, str, list[str]]] = {
    # how it is broken: (how to do it, file to name, other words to say)
    "no weights": (lambda folder: (folder / WEIGHTS).unlink(), WEIGHTS, ["no such file"]),
    "no target tokenizer": (lone_side, "tokenizer_tgt.json", []),
    "newer format": (set_keys(CONFIG, format_version=2), CONFIG, ["format_version", "update"]),
    "unknown key": (set_keys(CONFIG, n_head=4), CONFIG, ["'n_head'", "did you mean 'n_heads'"]),
    "tokenizer of another size": (other_vocabulary, TOKENIZER, ["264", "300", "config.json"]),
    "too few weights": (set_keys(CONFIG, n_encoder_layers=2), WEIGHTS, ["encoder.layers.1"]),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_folder_is_one_line_that_names_the_file(how: str, folder: Path) -> None:
    break_it, name, words = BROKEN[how]
    break_it(folder)
    with pytest.raises(ModelFolderError) as caught:
        load_model(folder)
    message = str(caught.value)
    assert str(folder / name) in message
    assert [word for word in words if word not in message] == []
    assert len(message.splitlines()) == 1
    assert len(message) < 1000


def test_files_a_user_put_there_are_kept(folder: Path, joint: StoredModel) -> None:
    for name in (".gitattributes", "runs/a/b.txt", "tokenizer_notes.md"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"mine\x00")
    before = snapshot(folder)
    save_model(folder, joint, notes={"validation.json": "[]"})
    assert snapshot(folder) == before | {"validation.json": b"[]"}


def test_a_power_cut_while_folders_change_places_is_mended(
    folder: Path, joint: StoredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, n_renames = Path.rename, 0

    def cut(self: Path, target: Path) -> Path:
        nonlocal n_renames
        n_renames += 1
        if n_renames == 2:
            raise KeyboardInterrupt
        return rename(self, target)

    change_weights(joint.model)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", cut)
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # nobody cleans up behind it
        with pytest.raises(KeyboardInterrupt):
            save_model(folder, joint)
    assert not folder.exists()
    repair_folder(folder)
    assert torch.equal(logits_of(load_model(folder).model), logits_of(joint.model))
    assert [path.name for path in folder.parent.iterdir()] == ["good"]


def test_the_other_kind_of_tokenizer_does_not_stay_behind(
    folder: Path, joint: StoredModel, separate: StoredModel
) -> None:
    save_model(folder, separate)
    assert {"tokenizer_src.json", "tokenizer_tgt.json"} == set(snapshot(folder)) - FILES
    save_model(folder, joint)
    assert load_model(folder).tokenizers.src.vocab_size == 300
    assert set(snapshot(folder)) == FILES


def test_a_save_that_fails_leaves_the_old_folder_and_no_draft(
    folder: Path, joint: StoredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise OSError("stale file handle")

    before = snapshot(folder.parent)
    change_weights(joint.model)
    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OSError, match="stale"):
        save_model(folder, joint)
    assert snapshot(folder.parent) == before
