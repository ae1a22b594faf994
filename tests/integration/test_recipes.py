"""Every recipe builds its model and takes one optimizer step on a fixture of its languages."""

from pathlib import Path

import pytest
import torch

from training.config import RunConfig, load_recipe
from training.loop import Run
from training.prepare import prepare_corpus
from training.team import Team
from training.toy import write_corpus

FOLDER = Path(__file__).parents[2] / "training" / "recipes"
RECIPES = sorted(path.stem for path in FOLDER.glob("*.toml"))
FIXTURES = {
    frozenset({"de", "en"}): "captions",
    frozenset({"en", "fr"}): "europarl",
    frozenset({"en", "ml"}): "verses",
}
PROMISED = {
    "base",
    "copy",
    "de-en-everyday",
    "de-en-multi30k",
    "de-en-multi30k-bt",
    "de-en-multi30k-wang",
    "en-de-everyday",
    "en-fr-europarl",
    "en-fr-europarl-devjwsong",
    "en-fr-everyday",
    "en-ml-captions",
    "en-ml-samanantar",
    "en-ml-samanantar-bnarath",
}
SHAPES = {
    "de-en-multi30k-wang": {"d_model": 64, "n_heads": 8, "d_ff": 256, "n_encoder_layers": 4},
    "en-ml-samanantar-bnarath": {"norm_order": "post", "n_encoder_layers": 2, "d_model": 512},
    "en-fr-europarl-devjwsong": {"n_decoder_layers": 6, "tie_output": False, "n_heads": 8},
    "base": {"d_model": 512, "d_ff": 2048, "n_encoder_layers": 6, "n_decoder_layers": 6},
}


def load(name: str, *overrides: str) -> RunConfig:
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
    settings = [f"data.valid={pair}", "data.drop_held_out=false", "data.drop_duplicates=false"]
    if "main" in data.training_corpora():
        settings.append(f"data.train={pair}")
    for corpus, values in data.corpora.items():
        settings.append(f"data.corpora.{corpus}.files={pair}")
        if "where_column" in values:  # a table, of which the filter takes half
            settings[-1] = (
                f"data.corpora.{corpus}.files={write_table(pair, values, data, tmp_path)}"
            )
    return settings


def write_table(pair: str, values: dict, data, tmp_path: Path) -> Path:
    lines = [Path(name).read_text(encoding="utf-8").splitlines() for name in pair.split(",")]
    kinds = [values["where_values"][0], "none of them"]
    rows = [
        "\t".join((kinds[n % 2], src, tgt)) for n, (src, tgt) in enumerate(zip(*lines, strict=True))
    ]
    header = "\t".join((values["where_column"], data.src_lang, data.tgt_lang))
    path = tmp_path / "table.tsv"
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def test_every_promised_recipe_is_there() -> None:
    assert set(RECIPES) >= PROMISED


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_whole_and_explains_itself(name: str) -> None:
    config = load(name)
    text = (FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    assert config.run.name == name
    assert text.startswith("# ")
    assert all((config.card.title, config.card.data, config.card.data_license, config.card.limits))
    model = config.model_config(src_vocab_size=8000, tgt_vocab_size=8000)
    assert (model.src_lang, model.tgt_lang) == (config.data.src_lang, config.data.tgt_lang)
    assert model.max_src_tokens == config.data.max_tokens + 1  # eos


@pytest.mark.parametrize("name", SHAPES)
def test_the_shapes_are_those_of_the_systems_they_are_named_after(name: str) -> None:
    model = load(name).model
    assert {key: model[key] for key in SHAPES[name]} == SHAPES[name]


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_takes_a_step_with_local_files_and_no_network(
    name: str, repo: Path, tmp_path: Path
) -> None:
    """With small batches: the shapes are the recipe's, the time is ours."""
    config = load(
        name,
        *local_files(name, repo, tmp_path),
        f"run.folder={tmp_path}",
        "run.device=cpu",
        "run.dtype=float32",
        "optimizer.batch_tokens=60",
        "optimizer.accumulate=1",
    )
    corpus = prepare_corpus(config, None)
    assert min(corpus.train.counts) > 0
    run = Run(config, tmp_path, corpus, Team(torch.device("cpu")))
    before = run.model.output_proj.weight.detach().clone()
    numbers = run.stepper.launch(run.feed.take(1).batches, lr=1e-3)
    outcome = run.stepper.read(numbers, step=1)
    assert 1 < outcome.loss < 40
    assert 0 < outcome.grad_norm < float("inf")
    assert outcome.n_tokens > 0
    assert not torch.equal(run.model.output_proj.weight, before)
