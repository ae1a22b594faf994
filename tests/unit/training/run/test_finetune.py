"""A run that starts from a model: what it takes of it, what it begins anew, what it says."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from hubnmt import Translator
from hubnmt.checkpoint.folder import load_model
from hubnmt.errors import ConfigError
from hubnmt.text.tokenizer import Tokenizer
from tests.hub import REPO, read_folder
from tests.hub_server import HubServer
from tests.runs import differing, read_metrics, score_as, stop_at
from training.run.finetune import describe_pretrained, load_pretrained, public_name
from training.run.trainer import Run, seed_everything
from training.train import run

FarmOptions = Callable[..., list[str]]
RunFarm = Callable[..., Run]
TrainMore = Callable[..., Run]


@pytest.fixture
def parent(farm_run: Run, tmp_path: Path) -> Path:
    """A run's best model, which may go."""
    return Path(shutil.copytree(farm_run.folder / "best", tmp_path / "elders" / "best"))


@pytest.fixture
def short_recipe(farm_recipe: Path, tmp_path: Path) -> Path:
    """The farm recipe without a word on shape and vocabulary."""
    sections = farm_recipe.read_text(encoding="utf-8").split("\n\n")
    kept = [each for each in sections if not each.startswith(("[model]", "[tokenizer]"))]
    assert len(kept) == len(sections) - 2
    path = tmp_path / "short.toml"
    path.write_text("\n\n".join(kept), encoding="utf-8")
    return path


@pytest.fixture
def train_more(short_recipe: Path, farm_options: FarmOptions, tmp_path: Path) -> TrainMore:
    """Train on from a model; the run folder is `tmp_path/NAME/farm`."""

    def train(name: str, *more: str, resume: bool = False) -> Run:
        folder = tmp_path / name
        overrides = farm_options(folder, *more)
        return run(short_recipe, overrides=overrides, resume=folder / "farm" if resume else None)

    return train


def read_json(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return values


# --- what a run takes ----------------------------------------------------------------------------


def test_shape_vocabulary_and_weights_are_the_models(parent: Path, train_more: TrainMore) -> None:
    done = train_more("more", f"run.pretrained={parent}", "run.max_steps=1", "optimizer.lr=1e-9")
    before, after = load_model(parent), load_model(done.folder / "last")
    assert after.model.config == before.model.config
    assert (parent / "tokenizer.json").read_text() == (done.folder / "tokenizer.json").read_text()
    for mine, theirs in zip(after.model.parameters(), before.model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)
    recipe = read_json(done.folder / "recipe.json")
    assert (recipe["model"]["d_model"], recipe["model"]["dropout"]) == (12, 0.2)
    assert recipe["tokenizer"] == {"vocab_size": before.tokenizers.src.vocab_size, "joint": True}


def test_dropout_and_languages_may_be_others(parent: Path, train_more: TrainMore) -> None:
    settings = ["model.dropout=0.4", "data.tgt_lang=nl", "data.max_tokens=60", "run.max_steps=1"]
    done = train_more("more", f"run.pretrained={parent}", *settings)
    config = done.model.config
    assert (config.dropout, config.attention_dropout, config.tgt_lang) == (0.4, 0.1, "nl")
    assert config.max_src_tokens == 61
    shorter = train_more("shorter", f"run.pretrained={parent}", "data.max_tokens=30", settings[-1])
    assert shorter.model.config.max_src_tokens == 41  # of its elder's longest it has not forgotten


# --- what a recipe cannot have -------------------------------------------------------------------


def test_all_that_contradicts_the_model_is_told_at_once(
    parent: Path, train_more: TrainMore, tmp_path: Path
) -> None:
    wishes = ["model.d_model=24", "model.norm_order=post", "tokenizer.joint=false"]
    with pytest.raises(ConfigError) as caught:
        train_more("more", f"run.pretrained={parent}", *wishes)
    said = str(caught.value)
    assert "model.d_model = 24 and not 12" in said
    assert "model.norm_order = 'post' and not 'pre'" in said
    assert "tokenizer.joint = False and not True" in said
    assert not (tmp_path / "more" / "farm").exists()


# --- the first validation ------------------------------------------------------------------------


def test_the_model_itself_is_validated_first_and_is_in_no_average(
    parent: Path, train_more: TrainMore
) -> None:
    done = train_more("more", f"run.pretrained={parent}")
    assert [each["step"] for each in read_metrics(done.folder, "valid")] == [0, 4, 8]
    assert [*done.progress.snapshots] == [4, 8]


def test_best_is_never_worse_than_the_start(
    parent: Path, train_more: TrainMore, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_as([9, 3, 2], monkeypatch)
    done = train_more("more", f"run.pretrained={parent}")
    assert done.best is not None
    assert (done.best.step, done.progress.n_worse) == (0, 2)
    assert differing(load_stored(parent), load_stored(done.folder / "best")) == []
    assert differing(load_stored(parent), load_stored(done.folder / "last")) != []
    card = (done.folder / "best" / "README.md").read_text(encoding="utf-8")
    assert "- weights: those of the pretrained model: no validation improved on it" in card


def load_stored(folder: Path) -> Translator:
    return Translator.from_pretrained(folder)


# --- going on ------------------------------------------------------------------------------------


@pytest.mark.parametrize("judged", ["average", "ema"])
def test_a_stopped_run_goes_on_without_the_model_to_the_same_bits(
    judged: str, parent: Path, train_more: TrainMore, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [f"run.pretrained={parent}", f"run.judged={judged}"]
    straight = train_more("straight", *settings)
    with monkeypatch.context() as patch:
        stop_at(3, patch)
        train_more("stopped", *settings)
    shutil.rmtree(parent)
    seed_everything(99)
    resumed = train_more("stopped", *settings, resume=True)
    assert resumed.progress.step == 8
    assert same_models(straight.folder, resumed.folder)
    for kind in ("train", "valid"):
        curves = [
            [(each["step"], each.get("loss"), each.get("bleu")) for each in read_metrics(f, kind)]
            for f in (straight.folder, resumed.folder)
        ]
        assert curves[0] == curves[1]


def same_models(*folders: Path) -> bool:
    files = [
        [(folder / name / "model.safetensors").read_bytes() for name in ("best", "last")]
        for folder in folders
    ]
    return files[0] == files[1]


def test_a_run_does_not_go_on_as_if_from_another_model(parent: Path, train_more: TrainMore) -> None:
    train_more("more", f"run.pretrained={parent}", "run.max_steps=1")
    for other in ("de-en", ""):
        with pytest.raises(ConfigError, match=r"run\.pretrained was .*best', is"):
            train_more("more", f"run.pretrained={other}", resume=True)
    with pytest.raises(ConfigError, match=r"model\.dropout was 0\.2, is 0\.3"):
        train_more("more", "model.dropout=0.3", resume=True)


# --- what is said of it --------------------------------------------------------------------------


def test_card_and_record_name_the_run_and_no_path(
    parent: Path, train_more: TrainMore, tmp_path: Path
) -> None:
    done = train_more("more", f"run.pretrained={parent}", "run.max_steps=1")
    machine = read_json(done.folder / "machine.json")
    assert machine["pretrained"] == {"name": "elders", "commit": None}
    card = (done.folder / "best" / "README.md").read_text(encoding="utf-8")
    assert "trained by fine-tuning elders with hubnmt" in card
    assert "- started from: elders\n" in card
    assert "base_model" not in card
    assert str(tmp_path) not in card


def test_a_model_of_the_hub_comes_with_its_commit(
    hub: HubServer, model_folder: Path, tiny_tokenizer: Tokenizer
) -> None:
    hub.store.put(REPO, read_folder(model_folder))
    commit = hub.repo(REPO).branches["main"]
    found = load_pretrained(REPO)
    assert found.record() == {"name": REPO, "commit": commit}
    assert describe_pretrained(found.record()) == f"{REPO} at commit {commit}"
    assert found.tokenizers[0].to_json() == tiny_tokenizer.to_json()
    assert load_pretrained(f"{REPO}@main").record() == found.record()


@pytest.mark.parametrize(
    ("name", "is_on_hub", "public"),
    [
        ("de-en", False, "de-en"),
        ("runs/mine/best", False, "mine"),
        ("runs/mine/last/", False, "mine"),
        ("/home/someone/models/mine", False, "mine"),
        ("/best", False, "best"),
        ("user/name@v1", True, "user/name"),
    ],
)
def test_the_name_tells_nothing_of_this_machine(name: str, is_on_hub: bool, public: str) -> None:
    assert public_name(name, is_on_hub=is_on_hub) == public
