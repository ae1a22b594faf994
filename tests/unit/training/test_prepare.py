from pathlib import Path

import pytest

from hubnmt.errors import InputError
from hubnmt.tokenizer import Tokenizer
from training.config import RunConfig, load_recipe
from training.prepare import prepare_corpus


@pytest.fixture
def config(farm_recipe: Path, farm_options, tmp_path: Path) -> RunConfig:
    return load_recipe(farm_recipe, farm_options(tmp_path))


def test_ids_spell_the_cleaned_texts(config: RunConfig) -> None:
    corpus = prepare_corpus(config, None)
    sources = Path(config.data.train[0]).read_text(encoding="utf-8").splitlines()
    spelled = {corpus.src_tokenizer.decode(src) for src, _ in corpus.train}
    assert spelled <= {line.strip() for line in sources}
    assert len(corpus.train) == corpus.report.n_kept > 0


def test_the_vocabulary_is_learned_from_the_training_texts_alone(
    config: RunConfig, farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    strange = tmp_path / "strange.txt"
    strange.write_text("qxqxqx qxqxqx\n" * 50, encoding="utf-8")
    overrides = farm_options(tmp_path, f"data.valid={strange},{strange}")
    with_strange = prepare_corpus(load_recipe(farm_recipe, overrides), None)
    text = "Hunde qxqxqx 12"
    plain = prepare_corpus(config, None).src_tokenizer
    assert with_strange.src_tokenizer.encode(text) == plain.encode(text)
    assert len(plain.encode("qxqxqx")) > 4


def test_a_resumed_run_keeps_its_vocabulary(config: RunConfig, tmp_path: Path) -> None:
    own = Tokenizer.train(["another text altogether, another text"], 300)
    own.save(tmp_path / "tokenizer.json")
    text = "another text"
    assert prepare_corpus(config, tmp_path).src_tokenizer.encode(text) == own.encode(text)
    assert prepare_corpus(config, None).src_tokenizer.encode(text) != own.encode(text)


@pytest.mark.parametrize("joint", [True, False])
def test_what_is_saved_is_what_a_resumed_run_loads(
    joint: bool, farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    more = [] if joint else ["tokenizer.joint=false", "model.share_embeddings=false"]
    config = load_recipe(farm_recipe, farm_options(tmp_path, *more))
    first = prepare_corpus(config, None)
    first.save(tmp_path)
    again = prepare_corpus(config, tmp_path)
    assert again.train == first.train
    assert (again.src_tokenizer is again.tgt_tokenizer) == joint
    assert (tmp_path / "cleaning.json").exists()


def test_nothing_left_to_train_on_says_what_was_dropped(
    farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    config = load_recipe(farm_recipe, farm_options(tmp_path, "data.max_tokens=1"))
    with pytest.raises(InputError, match="longer than 1 tokens"):
        prepare_corpus(config, None)
