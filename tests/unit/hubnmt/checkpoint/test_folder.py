"""Checkpoint: what is saved comes back equal; what is broken is named; nothing a user has is lost.

A broken folder, however it is broken, gives one `ModelFolderError`: one line with the file in it.
"""

import dataclasses
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from hubnmt.checkpoint import folder as checkpoint
from hubnmt.checkpoint.folder import (
    MAX_JSON_MIB,
    StoredModel,
    bundled_models,
    load_config,
    load_model,
    own_tensors,
    repair_folder,
    save_model,
)
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ModelFolderError
from hubnmt.model import Transformer
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

CARD = "---\nlanguage: [de, en]\n---\n# Grüße 🐕\n"
FILES = ["README.md", "config.json", "decoding.json", "model.safetensors", "tokenizer.json"]


@pytest.fixture
def joint(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> StoredModel:
    """One vocabulary, all three tables one."""
    return StoredModel(
        model=tiny_model,
        tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer),
        decoding=DecodingConfig(beam_size=3, length_penalty=0.7),
        card=CARD,
    )


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


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- there and back ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["joint", "separate"])
def test_save_and_load_give_equal_logits(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stored: StoredModel = request.getfixturevalue(kind)
    save_model(tmp_path / "deep" / "down", stored)
    loaded = load_model(tmp_path / "deep" / "down")
    assert torch.equal(logits_of(loaded.model), logits_of(stored.model))
    assert loaded.model.config == stored.model.config
    assert loaded.decoding == stored.decoding
    assert loaded.card == stored.card
    assert not loaded.model.training
    text = "Grüße, മഞ്ഞിൽ!"
    assert loaded.tokenizers.src.encode(text) == stored.tokenizers.src.encode(text)
    assert loaded.tokenizers.tgt.encode(text) == stored.tokenizers.tgt.encode(text)


def test_saving_what_was_loaded_writes_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    save_model(tmp_path / "again", load_model(folder))
    assert snapshot(tmp_path / "again") == snapshot(folder)


def test_a_loaded_model_can_be_saved_over_itself(folder: Path) -> None:
    before = snapshot(folder)
    save_model(folder, load_model(folder))
    assert snapshot(folder) == before


def test_the_folder_holds_the_promised_files(
    folder: Path, separate: StoredModel, tmp_path: Path
) -> None:
    assert names_in(folder) == FILES
    save_model(tmp_path / "two", separate)
    assert names_in(tmp_path / "two") == [
        *FILES[:4],
        "tokenizer_src.json",
        "tokenizer_tgt.json",
    ]


def test_all_files_can_be_read_by_the_same_people(folder: Path) -> None:
    modes = {file.name: file.stat().st_mode for file in folder.iterdir()}
    assert set(modes.values()) == {modes["config.json"]}


def test_tied_tables_stay_one_storage_and_are_written_once(folder: Path) -> None:
    model = load_model(folder).model
    assert model.output_proj.weight is model.tgt_embedding.weight
    assert model.tgt_embedding.weight is model.src_embedding.weight
    weights = load_file(folder / "model.safetensors")
    assert sum(tensor.numel() for tensor in weights.values()) == model.config.n_parameters
    assert not {"output_proj.weight", "tgt_embedding.weight"} & set(weights)


def test_separate_tables_stay_separate(separate: StoredModel, tmp_path: Path) -> None:
    save_model(tmp_path / "two", separate)
    loaded = load_model(tmp_path / "two")
    tables = (loaded.model.src_embedding, loaded.model.tgt_embedding, loaded.model.output_proj)
    assert len({table.weight.data_ptr() for table in tables}) == 3
    assert loaded.tokenizers.src is not loaded.tokenizers.tgt
    assert (loaded.tokenizers.src.vocab_size, loaded.tokenizers.tgt.vocab_size) == (280, 290)


def test_half_stores_float16_in_half_the_room(
    joint: StoredModel, folder: Path, tmp_path: Path
) -> None:
    save_model(tmp_path / "half", dataclasses.replace(joint, dtype=torch.float16))
    weights = load_file(tmp_path / "half" / "model.safetensors")
    assert {tensor.dtype for tensor in weights.values()} == {torch.float16}
    sizes = [(each / "model.safetensors").stat().st_size for each in (folder, tmp_path / "half")]
    assert sizes[1] < 0.6 * sizes[0]
    loaded = load_model(tmp_path / "half").model
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.float32}
    with torch.no_grad():
        for parameter in joint.model.parameters():
            parameter.copy_(parameter.half())
    assert torch.equal(logits_of(loaded), logits_of(joint.model))


@pytest.mark.parametrize(
    ("stored_as", "run_as", "written_as"),
    [
        (torch.float16, torch.float32, torch.float16),
        (torch.bfloat16, torch.float32, torch.bfloat16),
        (torch.float32, torch.float32, torch.float32),
        (torch.float32, torch.bfloat16, torch.bfloat16),
        (torch.float16, torch.bfloat16, torch.float16),
    ],
)
def test_a_model_saved_again_takes_no_more_room(
    stored_as: torch.dtype,
    run_as: torch.dtype,
    written_as: torch.dtype,
    joint: StoredModel,
    tmp_path: Path,
) -> None:
    save_model(tmp_path / "one", dataclasses.replace(joint, dtype=stored_as))
    loaded = load_model(tmp_path / "one")
    assert loaded.dtype == stored_as
    loaded.model.to(run_as)
    save_model(tmp_path / "two", loaded)
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert {tensor.dtype for tensor in two.values()} == {written_as}
    if run_as == torch.float32:
        assert all(torch.equal(one[name], two[name]) for name in one)


def test_every_parameter_belongs_to_the_stored_tensors(joint: StoredModel) -> None:
    stored = {tensor.data_ptr() for tensor in own_tensors(joint.model).values()}
    assert {parameter.data_ptr() for parameter in joint.model.parameters()} == stored


def test_json_is_readable_by_people(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert (config["library"], config["format_version"]) == ("hubnmt", 1)
    assert (config["src_lang"], config["tgt_lang"]) == ("de", "en")
    assert (folder / "config.json").read_text(encoding="utf-8").count("\n") > 10
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_decoding_defaults_and_card_may_be_left_out(folder: Path) -> None:
    (folder / "decoding.json").unlink()
    (folder / "README.md").unlink()
    loaded = load_model(folder)
    assert loaded.decoding == DecodingConfig()
    assert loaded.card == ""


@pytest.mark.parametrize("prefix", ["", "x" * 3000])
def test_a_prefix_in_an_older_folder_is_ignored_aloud(
    prefix: str, stored: StoredModel, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save_model(tmp_path / "model", stored)
    path = tmp_path / "model" / "decoding.json"
    path.write_text(json.dumps(stored.decoding.to_dict() | {"prefix": prefix}))
    assert load_model(tmp_path / "model").decoding == stored.decoding
    assert ("prefix is ignored" in caplog.text) == bool(prefix)


def test_a_card_that_is_not_utf8_does_not_stop_the_model(folder: Path) -> None:
    (folder / "README.md").write_bytes(b"# Gr\xfc\xdfe")
    assert load_model(folder).card == "# Gr\ufffd\ufffde"


def test_a_config_alone_can_be_read(folder: Path, joint: StoredModel) -> None:
    (folder / "model.safetensors").unlink()
    assert load_config(folder) == joint.model.config


def test_bundled_models_are_found_by_name(
    joint: StoredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "PRETRAINED", tmp_path)
    assert bundled_models() == {}
    for name in ("fr-en-b", "de-en-a"):
        save_model(tmp_path / name, joint)
    (tmp_path / "not-a-model").mkdir()
    assert list(bundled_models().items()) == [
        ("de-en-a", tmp_path / "de-en-a"),
        ("fr-en-b", tmp_path / "fr-en-b"),
    ]


# --- broken folders ------------------------------------------------------------------------------

Break = Callable[[Path], object]


def set_keys(name: str, **values: Any) -> Break:
    def edit(folder: Path) -> None:
        path = folder / name
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")

    return edit


def drop_key(name: str, key: str) -> Break:
    def edit(folder: Path) -> None:
        path = folder / name
        values = json.loads(path.read_text("utf-8"))
        del values[key]
        path.write_text(json.dumps(values), "utf-8")

    return edit


def write(name: str, content: bytes) -> Break:
    return lambda folder: (folder / name).write_bytes(content)


def remove(name: str) -> Break:
    return lambda folder: (folder / name).unlink()


def truncate(name: str, share: float) -> Break:
    def cut(folder: Path) -> None:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: int(len(whole) * share)])

    return cut


def make_folder_of(name: str) -> Break:
    def replace(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return replace


def edit_weights(edit: Callable[[dict[str, Tensor]], object]) -> Break:
    def rewrite(folder: Path) -> None:
        weights = load_file(folder / "model.safetensors")
        edit(weights)
        save_file(weights, folder / "model.safetensors")

    return rewrite


def other_vocabulary(folder: Path) -> None:
    Tokenizer.train(["ein kleiner Hund"], 264).save(folder / "tokenizer.json")


def lone_side(name: str) -> Break:
    return lambda folder: (folder / "tokenizer.json").rename(folder / name)


BIAS = "encoder.final_norm.bias"
CONFIG, DECODING = "config.json", "decoding.json"
WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"

BROKEN: dict[str, tuple[Break, str, list[str]]] = {
    # how it is broken: (how to do it, file to name, other words to say)
    "no config": (remove(CONFIG), CONFIG, ["no such file"]),
    "no weights": (remove(WEIGHTS), WEIGHTS, ["no such file"]),
    "no tokenizer": (remove(TOKENIZER), TOKENIZER, ["no such file"]),
    "no target tokenizer": (lone_side("tokenizer_src.json"), "tokenizer_tgt.json", []),
    "no source tokenizer": (lone_side("tokenizer_tgt.json"), "tokenizer", ["no such file"]),
    "config is a folder": (make_folder_of(CONFIG), CONFIG, []),
    "weights are a folder": (make_folder_of(WEIGHTS), WEIGHTS, []),
    "config is empty": (write(CONFIG, b""), CONFIG, ["JSON"]),
    "config is torn": (truncate(CONFIG, 0.6), CONFIG, ["JSON"]),
    "config is a list": (write(CONFIG, b"[1, 2]"), CONFIG, ["JSON object"]),
    "config is a number": (write(CONFIG, b"7"), CONFIG, ["JSON object"]),
    "config is not UTF-8": (write(CONFIG, b'{"library": "\xff"}'), CONFIG, ["JSON"]),
    "config is nested without end": (write(CONFIG, b"[" * 200_000), CONFIG, ["JSON"]),
    "config is huge": (write(CONFIG, b" " * (MAX_JSON_MIB * 2**20 + 9)), CONFIG, ["larger"]),
    "number of 5,000 digits": (
        write(CONFIG, b'{"library": "hubnmt", "format_version": ' + b"9" * 5000 + b"}"),
        *(CONFIG, []),
    ),
    "other library": (set_keys(CONFIG, library="transformers"), CONFIG, ["library"]),
    "no library": (drop_key(CONFIG, "library"), CONFIG, ["library"]),
    "newer format": (set_keys(CONFIG, format_version=2), CONFIG, ["format_version", "update"]),
    "no format": (drop_key(CONFIG, "format_version"), CONFIG, ["format_version"]),
    "unknown key": (set_keys(CONFIG, n_head=4), CONFIG, ["'n_head'", "did you mean 'n_heads'"]),
    "missing key": (drop_key(CONFIG, "src_lang"), CONFIG, ["src_lang"]),
    "text for a number": (set_keys(CONFIG, d_model="12"), CONFIG, ["d_model", "'12'"]),
    "truth for a number": (set_keys(CONFIG, n_heads=True), CONFIG, ["n_heads", "True"]),
    "fraction for a count": (set_keys(CONFIG, d_ff=20.5), CONFIG, ["d_ff", "20.5"]),
    "number for a word": (set_keys(CONFIG, norm_order=1), CONFIG, ["norm_order", "'pre'"]),
    "not a number": (set_keys(CONFIG, dropout=float("nan")), CONFIG, ["dropout"]),
    "below its range": (set_keys(CONFIG, n_decoder_layers=-1), CONFIG, ["n_decoder_layers"]),
    "above its range": (set_keys(CONFIG, d_model=10**300), CONFIG, ["d_model"]),
    "heads do not divide": (set_keys(CONFIG, n_heads=5), CONFIG, ["d_model", "n_heads"]),
    "a head that is not there": (set_keys(CONFIG, alignment_head=[2, 0]), CONFIG, ["alignment"]),
    "decoding is torn": (truncate(DECODING, 0.5), DECODING, ["JSON"]),
    "decoding is a list": (write(DECODING, b"[]"), DECODING, ["JSON object"]),
    "unknown option": (set_keys(DECODING, beam_sise=2), DECODING, ["'beam_sise'", "'beam_size'"]),
    "half a character": (
        set_keys(DECODING, colour="A \ud800 dog"),
        *(DECODING, ["lone surrogate", "\\ud800"]),
    ),
    "half a character in the config": (
        set_keys(CONFIG, src_lang="d\udc00"),
        *(CONFIG, ["lone surrogate", "\\udc00"]),
    ),
    "half a character for a key": (
        set_keys(CONFIG, **{"n_\ud800": [["deep"]]}),
        *(CONFIG, ["lone surrogate"]),
    ),
    "half a character deep down": (
        set_keys(DECODING, colour=[{"x": "\udfff"}]),
        *(DECODING, ["lone surrogate"]),
    ),
    "option out of range": (set_keys(DECODING, beam_size=0), DECODING, ["beam_size", "1 to 256"]),
    "penalty beyond floats": (
        set_keys(DECODING, length_penalty=10**400),
        *(DECODING, ["length_penalty"]),
    ),
    "temperature beyond floats": (
        set_keys(DECODING, temperature=10**400),
        *(DECODING, ["temperature"]),
    ),
    "tokenizer is torn": (truncate(TOKENIZER, 0.7), TOKENIZER, []),
    "tokenizer is empty": (write(TOKENIZER, b""), TOKENIZER, []),
    "tokenizer is not UTF-8": (write(TOKENIZER, b"\xff\xfe\x00"), TOKENIZER, []),
    "tokenizer of another size": (other_vocabulary, TOKENIZER, ["264", "300", "config.json"]),
    "config of another size": (
        set_keys(CONFIG, src_vocab_size=301, tgt_vocab_size=301),
        *(TOKENIZER, ["301", "300"]),
    ),
    "weights are empty": (write(WEIGHTS, b""), WEIGHTS, []),
    "weights are torn in the header": (truncate(WEIGHTS, 0.001), WEIGHTS, []),
    "weights are torn at the end": (truncate(WEIGHTS, 0.99), WEIGHTS, []),
    "weights are text": (write(WEIGHTS, b"version https://git-lfs..."), WEIGHTS, []),
    "weights promise a huge header": (write(WEIGHTS, b"\xff" * 7 + b"\x0f{}"), WEIGHTS, []),
    "one tensor too many": (
        edit_weights(lambda w: w.update(extra=torch.zeros(2))),
        *(WEIGHTS, ["unknown tensor extra"]),
    ),
    "one tensor too few": (
        edit_weights(lambda w: w.pop(BIAS)),
        *(WEIGHTS, [f"{BIAS} is missing"]),
    ),
    "transposed tensor": (
        edit_weights(lambda w: w.update({BIAS: torch.zeros(12, 1)})),
        *(WEIGHTS, [BIAS, "[12, 1]", "[12]"]),
    ),
    "whole numbers": (
        edit_weights(lambda w: w.update({BIAS: torch.zeros(12, dtype=torch.int64)})),
        *(WEIGHTS, [BIAS, "I64"]),
    ),
    "no number": (
        edit_weights(lambda w: w[BIAS].view(-1)[3:4].fill_(torch.nan)),
        *(WEIGHTS, [BIAS, "NaN or infinite"]),
    ),
    "infinite weights": (
        edit_weights(lambda w: [tensor.fill_(-torch.inf) for tensor in w.values()]),
        *(WEIGHTS, ["NaN or infinite", "more"]),
    ),
    "infinite half floats": (
        edit_weights(lambda w: w.update({BIAS: torch.full((12,), torch.inf).half()})),
        *(WEIGHTS, [BIAS, "NaN or infinite"]),
    ),
    "many tensors missing": (
        edit_weights(lambda w: [w.pop(name) for name in list(w)[3:]]),
        *(WEIGHTS, ["is missing", "more"]),
    ),
    "more layers than weights": (
        set_keys(CONFIG, n_encoder_layers=2),
        *(WEIGHTS, ["encoder.layers.1", "config.json"]),
    ),
    "wider than the weights": (set_keys(CONFIG, d_ff=21), WEIGHTS, ["shape", "config.json"]),
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


def test_all_unknown_keys_are_named_at_once(folder: Path) -> None:
    set_keys(CONFIG, d_modle=12, colour="red", n_heads="3")(folder)
    with pytest.raises(ModelFolderError, match=r"d_modle.*colour.*n_heads|n_heads.*d_modle"):
        load_model(folder)


@pytest.mark.parametrize("name", ["config.json", "decoding.json", TOKENIZER, WEIGHTS])
def test_damage_anywhere_loads_or_is_refused_but_never_crashes(name: str, folder: Path) -> None:
    rng = random.Random(name)
    whole = (folder / name).read_bytes()
    refusals = []
    for trial in range(30):
        torn = bytearray(whole)
        if trial % 3 == 0:
            del torn[rng.randrange(len(torn)) :]
        else:
            for _ in range(1 + trial % 4):
                torn[rng.randrange(min(len(torn), 2000))] = rng.randrange(256)
        (folder / name).write_bytes(torn)
        try:
            load_model(folder)
        except ModelFolderError as error:
            refusals.append(str(error))
    assert len(refusals) > 10
    assert [message for message in refusals if str(folder / name) not in message] == []


def test_nothing_is_unpickled(folder: Path, joint: StoredModel) -> None:
    (folder / WEIGHTS).unlink()
    torch.save(joint.model.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(ModelFolderError, match=WEIGHTS):
        load_model(folder)


def refuse_allocation(config: ModelConfig) -> Transformer:
    """Stand in for `Transformer`: only a model without memory may be built."""
    assert torch.empty(0).device.type == "meta", "memory is taken before the check"
    return Transformer(config)


def test_10_to_the_12_parameters_are_refused_before_memory_is_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "Transformer", refuse_allocation)
    set_keys(CONFIG, d_model=3 * 2**12, d_ff=2**17, n_encoder_layers=256)(folder)
    with pytest.raises(ModelFolderError, match=r"parameters are more than"):
        load_model(folder)


def test_weights_too_few_for_the_config_are_refused_before_memory_is_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three billion parameters are allowed, but 60 KB of weights do not hold them."""
    monkeypatch.setattr(checkpoint, "Transformer", refuse_allocation)
    set_keys(CONFIG, d_model=3 * 2**10, d_ff=2**17, n_encoder_layers=2)(folder)
    assert load_config(folder).n_parameters > 3_000_000_000
    with pytest.raises(ModelFolderError, match=WEIGHTS):
        load_model(folder)


def test_a_missing_folder_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ModelFolderError, match=r"config\.json: no such file"):
        load_model(tmp_path / "nowhere")


# --- saving over something -----------------------------------------------------------------------


def fail_at_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(checkpoint, "save", fail)


def fail_at_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path, values: dict[str, Any]) -> None:
        path.write_text(json.dumps(values), encoding="utf-8")
        if path.name == DECODING:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint, "write_json", fail)


def fail_at_foreign_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(shutil, "copy2", fail)


def fail_at_moving_in(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.rename

    def fail(self: Path, target: Path) -> Path:
        if "draft" in self.name:
            raise OSError("stale file handle")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", fail)


@pytest.mark.parametrize(
    "fail", [fail_at_weights, fail_at_decoding, fail_at_foreign_files, fail_at_moving_in]
)
def test_a_save_that_fails_leaves_the_old_folder_and_no_draft(
    fail: Callable[[pytest.MonkeyPatch], None],
    folder: Path,
    joint: StoredModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    before = snapshot(folder)
    with torch.no_grad():
        joint.model.src_embedding.weight.add_(1)
    with monkeypatch.context() as patch:
        fail(patch)
        with pytest.raises((OSError, KeyboardInterrupt)):
            save_model(folder, joint)
    assert names_in(folder.parent) == ["good"]
    assert snapshot(folder) == before


def test_a_save_that_fails_leaves_nothing_where_nothing_was(
    joint: StoredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_at_weights(monkeypatch)
    with pytest.raises(OSError, match="no space"):
        save_model(tmp_path / "new", joint)
    assert names_in(tmp_path) == []


def test_a_save_replaces_the_model_and_leaves_no_draft(folder: Path, joint: StoredModel) -> None:
    with torch.no_grad():
        joint.model.src_embedding.weight.add_(1)
    save_model(folder, joint)
    assert names_in(folder.parent) == ["good"]
    assert names_in(folder) == FILES
    assert torch.equal(logits_of(load_model(folder).model), logits_of(joint.model))


@pytest.mark.parametrize(
    "name", ["notes.txt", ".gitattributes", "runs/a/b.txt", "tokenizer_notes.md"]
)
def test_files_a_user_put_there_are_kept(name: str, folder: Path, joint: StoredModel) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"mine\x00")
    save_model(folder, joint)
    assert (folder / name).read_bytes() == b"mine\x00"


def test_a_link_a_user_put_there_is_kept_even_if_it_leads_nowhere(
    folder: Path, joint: StoredModel
) -> None:
    (folder / "data").symlink_to("../elsewhere")
    save_model(folder, joint)
    assert (folder / "data").is_symlink()


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

    with torch.no_grad():
        joint.model.src_embedding.weight.add_(1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", cut)
        patch.setattr(shutil, "rmtree", lambda *_, **__: None)  # nobody cleans up behind it
        with pytest.raises(KeyboardInterrupt):
            save_model(folder, joint)
    assert not folder.exists()
    repair_folder(folder)
    assert torch.equal(logits_of(load_model(folder).model), logits_of(joint.model))
    assert names_in(folder.parent) == ["good"]


def test_there_is_nothing_to_mend_where_nothing_was_cut(folder: Path) -> None:
    before = snapshot(folder.parent)
    for name in ("good", "other", "nowhere/good"):
        repair_folder(folder.parent / name)
    assert snapshot(folder.parent) == before


def test_notes_come_with_the_model(folder: Path, joint: StoredModel) -> None:
    save_model(folder, joint, notes={"validation.json": "{}"})
    assert names_in(folder) == sorted([*FILES, "validation.json"])
    save_model(folder, joint, notes={"validation.json": "[]"})
    assert (folder / "validation.json").read_text(encoding="utf-8") == "[]"


def test_the_other_kind_of_tokenizer_does_not_stay_behind(
    folder: Path, joint: StoredModel, separate: StoredModel
) -> None:
    save_model(folder, separate)
    assert load_model(folder).tokenizers.src.vocab_size == 280
    save_model(folder, joint)
    assert load_model(folder).tokenizers.src.vocab_size == 300
    assert names_in(folder) == FILES


def test_a_folder_behind_a_link_can_be_saved_over(
    folder: Path, separate: StoredModel, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder, target_is_directory=True)
    save_model(link, separate)
    assert load_model(link).tokenizers.src.vocab_size == 280
    assert names_in(tmp_path) == ["link", "models"]


def test_the_current_folder_can_be_saved_to(
    joint: StoredModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    save_model(".", joint)
    assert names_in(tmp_path / "here") == FILES


def test_a_file_in_the_way_is_not_overwritten(joint: StoredModel, tmp_path: Path) -> None:
    (tmp_path / "model").write_text("a thesis", encoding="utf-8")
    with pytest.raises((OSError, ModelFolderError)):
        save_model(tmp_path / "model", joint)
    assert (tmp_path / "model").read_text(encoding="utf-8") == "a thesis"
    assert names_in(tmp_path) == ["model"]
