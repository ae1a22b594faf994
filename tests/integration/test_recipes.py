"""Every recipe builds its model and takes one optimizer step on a fixture of its languages."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

import hubnmt
from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from training.config.recipe import Recipe, load_recipe
from training.data.prepare import prepare_data
from training.distributed import ProcessGroup
from training.run.report import describe_average
from training.run.trainer import Trainer
from training.toy import write_corpus

FOLDER = Path(__file__).parents[2] / "training" / "recipes"
RECIPES = sorted(path.stem for path in FOLDER.glob("*.toml"))
FIXTURES = {
    frozenset({"de", "en"}): "captions",
    frozenset({"en", "fr"}): "europarl",
    frozenset({"en", "ml"}): "verses",
}


def load(name: str, *overrides: str) -> Recipe:
    return load_recipe(FOLDER / f"{name}.toml", overrides)


def local_files(name: str, repo: Path, tmp_path: Path) -> list[str]:
    """Name fixtures for each corpus and split of a recipe, as a user with local files does."""
    data = load(name).data
    if name == "copy":
        write_corpus(tmp_path / "toy")
        pair = f"{tmp_path / 'toy' / 'valid.src'},{tmp_path / 'toy' / 'valid.tgt'}"
    else:
        stem = repo / "tests" / "fixtures" / FIXTURES[frozenset({data.src_lang, data.tgt_lang})]
        pair = f"{stem}.{data.src_lang},{stem}.{data.tgt_lang}"
    settings = [f"data.{split}={pair}" for split in ("valid", "test")]
    settings += ["data.drop_held_out=false", "data.drop_duplicates=false"]
    if "main" in data.training_corpora():
        settings.append(f"data.train={pair}")
    for corpus, values in data.corpora.items():
        settings.append(f"data.corpora.{corpus}.files={pair}")
        if "where_column" in values:  # of a table
            settings.append(f"data.corpora.{corpus}.where_column=null")
            settings.append(f"data.corpora.{corpus}.where_values=")
    return settings


BUNDLED = Path(hubnmt.__file__).parent / "pretrained"


@pytest.mark.parametrize("name", sorted(set(RECIPES) & {path.name for path in BUNDLED.iterdir()}))
def test_a_bundled_model_has_the_shape_of_its_recipe_still(name: str) -> None:
    """A recipe that is changed after its model was trained makes nobody the same model."""
    recipe = load(name)
    values = json.loads((BUNDLED / name / "config.json").read_text(encoding="utf-8"))
    del values["library"], values["format_version"]
    config = ModelConfig.from_dict(values, where=name)
    made = recipe.model_config(
        src_vocab_size=config.src_vocab_size, tgt_vocab_size=config.tgt_vocab_size
    )
    found_out = {each: getattr(config, each) for each in ("alignment_head", "alignment_shift")}
    assert dataclasses.replace(made, **found_out) == config
    assert config.src_vocab_size <= recipe.tokenizer.vocab_size
    card = (BUNDLED / name / "README.md").read_text(encoding="utf-8")
    settings = recipe.to_dict()
    for key in ("lr", "warmup_steps", "label_smoothing", "batch_tokens", "accumulate"):
        assert f"\n{key} = {json.dumps(settings['optimizer'][key])}\n" in card
    assert f"- seed: {recipe.run.seed}\n" in card
    assert f"- weights: {describe_average(settings['run'])}\n" in card


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_explains_itself_and_takes_a_step_with_local_files_and_no_network(
    name: str, repo: Path, tmp_path: Path
) -> None:
    """With few pieces, small batches and one layer on each side: the rest is the recipe's."""
    recipe = load(name)
    assert recipe.run.name == name
    # As a run folder stores it, so that a run goes on without the file.
    assert load_recipe(json.loads(json.dumps(recipe.to_dict()))) == recipe
    assert (FOLDER / f"{name}.toml").read_text(encoding="utf-8").startswith("# ")
    assert all((recipe.card.title, recipe.card.data, recipe.card.data_license, recipe.card.limits))
    recipe = load(
        name,
        *local_files(name, repo, tmp_path),
        f"run.folder={tmp_path}",
        "run.device=cpu",
        "run.dtype=float32",
        "tokenizer.vocab_size=500",
        "optimizer.batch_tokens=60",
        "optimizer.accumulate=1",
        "model.n_encoder_layers=1",
        "model.n_decoder_layers=1",
    )
    run_data = prepare_data(recipe, None)
    assert min(run_data.train.counts) > 0
    run = Trainer(recipe, tmp_path, run_data, ProcessGroup(torch.device("cpu")))
    before = run.model.output_proj.weight.detach().clone()
    numbers = run.stepper.start_step(run.loader.take(1).batches, lr=1e-3)
    outcome = run.stepper.finish_step(numbers, step=1)
    assert 1 < outcome.loss < 40
    assert 0 < outcome.grad_norm < float("inf")
    assert outcome.n_tokens > 0
    assert not torch.equal(run.model.output_proj.weight, before)


def test_a_text_of_the_users_is_not_overwritten_by_the_toy_corpus(tmp_path: Path) -> None:
    (tmp_path / "valid.src").write_text("my own\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"valid\.src has other content; choose another folder"):
        write_corpus(tmp_path)
    assert (tmp_path / "valid.src").read_text(encoding="utf-8") == "my own\n"
