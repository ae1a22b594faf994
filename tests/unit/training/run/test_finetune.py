"""A run that starts from a model: what it takes of it, what it begins anew, what it says."""

import shutil
from pathlib import Path

import pytest
import torch
import yaml

from hubnmt import Translator
from hubnmt.errors import ConfigError
from tests.hub import REPO, read_folder
from tests.hub_server import HubServer
from tests.runs import RunFarm, curve, differing, read_metrics, same_models, score_as, stop_at
from training.run.finetune import public_name
from training.run.trainer import Trainer, seed_everything
from training.run.validation import read_validation

load = Translator.from_pretrained


@pytest.fixture
def parent(farm_run: Trainer, tmp_path: Path) -> Path:
    """A run's best model, which may go."""
    return Path(shutil.copytree(farm_run.folder / "best", tmp_path / "elders" / "best"))


def test_all_that_contradicts_the_model_is_told_at_once(
    parent: Path, run_farm: RunFarm, tmp_path: Path
) -> None:
    wishes = ["model.d_model=24", "model.norm_order=post", "tokenizer.joint=false"]
    with pytest.raises(ConfigError) as caught:
        run_farm(tmp_path / "more", f"run.pretrained={parent}", *wishes)
    said = str(caught.value)
    assert "model.d_model = 24 and not 12" in said
    assert "model.norm_order = 'post' and not 'pre'" in said
    assert "tokenizer.joint = False and not True" in said
    assert not (tmp_path / "more" / "farm").exists()


def test_best_is_never_worse_than_the_start(
    parent: Path, run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_as([9, 3, 2], monkeypatch)
    done = run_farm(tmp_path / "more", f"run.pretrained={parent}")
    record = read_validation(done.folder / "best")
    assert record is not None
    assert (record["step"], done.progress.n_worse) == (0, 2)
    first = load(parent)
    assert differing(first, load(done.folder / "best")) == []
    assert differing(first, load(done.folder / "last")) != []
    card = (done.folder / "best" / "README.md").read_text(encoding="utf-8")
    assert "- weights: those of the pretrained model: no validation improved on it" in card


def test_a_stopped_run_goes_on_without_the_model_to_the_same_bits(
    parent: Path, run_farm: RunFarm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = [f"run.pretrained={parent}"]
    straight = run_farm(tmp_path / "straight", *settings)
    with monkeypatch.context() as patch:
        stop_at(3, patch)
        run_farm(tmp_path / "stopped", *settings)
    shutil.rmtree(parent)
    seed_everything(99)
    resumed = run_farm(tmp_path / "stopped", *settings, resume=True)
    assert resumed.progress.step == 8
    assert same_models(straight.folder, resumed.folder)
    assert curve(straight.folder) == curve(resumed.folder)


@pytest.mark.parametrize(
    ("name", "is_on_hub", "public"),
    [
        ("runs/mine/best", False, "mine"),
        ("/home/someone/models/mine", False, "mine"),
        ("user/name@v1", True, "user/name"),
    ],
)
def test_the_name_tells_nothing_of_this_machine(name: str, is_on_hub: bool, public: str) -> None:
    assert public_name(name, is_on_hub=is_on_hub) == public


def test_a_model_of_the_hub_is_named_with_its_commit_and_not_needed_again(
    parent: Path, run_farm: RunFarm, hub: HubServer, tmp_path: Path
) -> None:
    hub.store.put(REPO, read_folder(parent))
    commit = hub.repo(REPO).refs["main"]
    start = f"run.pretrained={REPO}"
    done = run_farm(tmp_path / "more", start, "run.max_steps=2", "run.eval_every=2")
    card = load(done.folder / "best").card
    assert yaml.safe_load(card.split("---\n")[1])["base_model"] == REPO
    assert f"- started from: {REPO} at commit {commit}\n" in card
    hub.store.repos.clear()
    run_farm(tmp_path / "more", start, "run.max_steps=4", "run.eval_every=2", resume=True)
    assert [each["step"] for each in read_metrics(done.folder, "valid")] == [0, 2, 4]


def test_a_new_model_takes_the_encoder_and_the_source_vocabulary_of_another(
    parent: Path, run_farm: RunFarm, tmp_path: Path
) -> None:
    start = [f"run.pretrained={parent}", "run.pretrained_part=encoder", "model.n_decoder_layers=1"]
    done = run_farm(tmp_path / "more", *start, "run.max_steps=1", "optimizer.lr=1e-9")
    old, new = load(parent), load(done.folder / "last")
    assert new.tokenizers.src.to_json() == old.tokenizers.src.to_json()
    assert new.tokenizers.tgt.to_json() != old.tokenizers.tgt.to_json()
    weights = new.model.state_dict()
    for name, weight in old.model.state_dict().items():
        if name.startswith(("encoder.", "src_embedding.")):
            torch.testing.assert_close(weights[name], weight, atol=1e-3, rtol=0)
    assert new.config.n_decoder_layers == 1
    assert not new.config.share_embeddings
    assert "- started from: the encoder of elders\n" in load(done.folder / "last").card
