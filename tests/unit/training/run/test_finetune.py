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
from hubnmt.errors import ConfigError, HubNMTError, ModelNotFoundError
from hubnmt.text.tokenizer import Tokenizer
from tests.hub import REPO, read_folder
from tests.hub_server import HubServer
from tests.runs import differing, read_metrics, score_as, stop_at
from training.config.recipe import load_recipe
from training.run.finetune import describe_pretrained, load_pretrained, public_name
from training.run.trainer import Run, seed_everything
from training.run.validation import Validator
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


def test_nothing_else_is_taken(parent: Path, train_more: TrainMore) -> None:
    done = train_more("more", f"run.pretrained={parent}", "run.max_steps=1")
    (first,) = read_metrics(done.folder, "train")
    assert (first["step"], first["epoch"]) == (1, 0)
    assert first["lr"] == pytest.approx(1e-2 / 3)  # the recipe's warm-up, from its beginning
    (state,) = {int(each["step"]) for each in done.stepper.optimizer.state.values()}
    assert state == 1


def test_dropout_and_languages_may_be_others(parent: Path, train_more: TrainMore) -> None:
    settings = ["model.dropout=0.4", "data.tgt_lang=nl", "data.max_tokens=60", "run.max_steps=1"]
    done = train_more("more", f"run.pretrained={parent}", *settings)
    config = done.model.config
    assert (config.dropout, config.attention_dropout, config.tgt_lang) == (0.4, 0.1, "nl")
    assert config.max_src_tokens == 61
    shorter = train_more("shorter", f"run.pretrained={parent}", "data.max_tokens=30", settings[-1])
    assert shorter.model.config.max_src_tokens == 41  # of its elder's longest it has not forgotten


def test_two_vocabularies_are_kept_apart(
    run_farm: RunFarm, train_more: TrainMore, tmp_path: Path
) -> None:
    separate = ["tokenizer.joint=false", "model.share_embeddings=false", "run.max_steps=1"]
    elder = run_farm(tmp_path / "elder", *separate).folder / "best"
    done = train_more("more", f"run.pretrained={elder}", "run.max_steps=1")
    for side in ("src", "tgt"):
        name = f"tokenizer_{side}.json"
        assert (done.folder / "best" / name).read_bytes() == (elder / name).read_bytes()
    assert done.config.tokenizer.joint is False


def test_the_moving_average_starts_there_too(parent: Path, train_more: TrainMore) -> None:
    settings = ["run.judged=ema", "run.ema_decay=0.999", "run.max_steps=1", "optimizer.lr=1e-9"]
    done = train_more("more", f"run.pretrained={parent}", *settings)
    last, elder = (Translator.from_pretrained(each) for each in (done.folder / "last", parent))
    for mine, theirs in zip(last.model.parameters(), elder.model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-6)


def test_another_vocabulary_gives_other_ids_in_the_same_cache(
    train_more: TrainMore, run_farm: RunFarm, farm_run: Run, tmp_path: Path
) -> None:
    cache, once = f"data.cache={tmp_path / 'cache'}", "run.max_steps=1"
    other = run_farm(tmp_path / "other", cache, once, "tokenizer.vocab_size=280")
    start = f"run.pretrained={farm_run.folder / 'best'}"
    done = train_more("more", start, cache, once)
    assert list(done.corpus.train) == list(farm_run.corpus.train) != list(other.corpus.train)


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


@pytest.mark.parametrize("name", ["no-such-model", "../nowhere", "x/y/z"])
def test_a_model_that_is_not_there_is_told_before_anything_is_made(
    name: str, train_more: TrainMore, tmp_path: Path
) -> None:
    with pytest.raises(ModelNotFoundError, match="not a local folder"):
        train_more("more", f"run.pretrained={name}")
    assert not (tmp_path / "more").exists()


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", '{"model_type": "marian"}', "another library"),
        ("model.safetensors", "torn", "invalid safetensors file"),
        ("tokenizer.json", None, "no such file"),
    ],
)
def test_a_model_that_is_not_whole_is_refused(
    file: str, content: str | None, said: str, parent: Path, train_more: TrainMore, tmp_path: Path
) -> None:
    (parent / file).unlink()
    if content is not None:
        (parent / file).write_text(content, encoding="utf-8")
    with pytest.raises(HubNMTError, match=said):
        train_more("more", f"run.pretrained={parent}")
    assert not (tmp_path / "more").exists()


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


def test_a_run_from_scratch_has_no_validation_of_its_start(farm_run: Run) -> None:
    assert [each["step"] for each in read_metrics(farm_run.folder, "valid")] == [4, 8]


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


def test_a_run_killed_in_its_first_validation_goes_on_too(
    parent: Path, train_more: TrainMore, monkeypatch: pytest.MonkeyPatch
) -> None:
    straight = train_more("straight", f"run.pretrained={parent}")
    validate = Validator.validate

    def cut_off(self: Validator, *args: Any) -> None:
        validate(self, *args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Validator, "validate", cut_off)
        with pytest.raises(KeyboardInterrupt):
            train_more("cut", f"run.pretrained={parent}")
    shutil.rmtree(parent)
    resumed = train_more("cut", f"run.pretrained={parent}", resume=True)
    assert [each["step"] for each in read_metrics(resumed.folder, "valid")] == [0, 4, 8]
    assert same_models(straight.folder, resumed.folder)


def test_a_run_does_not_go_on_as_if_from_another_model(parent: Path, train_more: TrainMore) -> None:
    train_more("more", f"run.pretrained={parent}", "run.max_steps=1")
    for other in ("de-en-everyday", ""):
        with pytest.raises(ConfigError, match=r"run\.pretrained was .*best', is"):
            train_more("more", f"run.pretrained={other}", resume=True)
    with pytest.raises(ConfigError, match=r"model\.dropout was 0\.2, is 0\.3"):
        train_more("more", "model.dropout=0.3", resume=True)


def test_a_first_step_that_does_not_fit_leaves_the_name_free(
    parent: Path, train_more: TrainMore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr("training.optim.step.projected_cross_entropy", refuse)
        with pytest.raises(ConfigError, match="out of memory"):
            train_more("more", f"run.pretrained={parent}")
    done = train_more("more", f"run.pretrained={parent}", "optimizer.batch_tokens=300")
    assert [each["step"] for each in read_metrics(done.folder, "valid")] == [0, 4, 8]


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
        ("de-en-everyday", False, "de-en-everyday"),
        ("runs/mine/best", False, "mine"),
        ("runs/mine/last/", False, "mine"),
        ("/home/someone/models/mine", False, "mine"),
        ("/best", False, "best"),
        ("user/name@v1", True, "user/name"),
    ],
)
def test_the_name_tells_nothing_of_this_machine(name: str, is_on_hub: bool, public: str) -> None:
    assert public_name(name, is_on_hub=is_on_hub) == public


def test_settings_are_those_a_recipe_would_have(
    parent: Path, short_recipe: Path, farm_options: FarmOptions, tmp_path: Path
) -> None:
    start = load_pretrained(str(parent))
    options = farm_options(tmp_path, f"run.pretrained={parent}")
    config = load_recipe(short_recipe, options)
    whole = load_recipe(short_recipe, options, inherited=start.settings(config))
    size = start.tokenizers[0].vocab_size
    assert whole.model_config(src_vocab_size=size, tgt_vocab_size=size) == start.config
