import dataclasses
from pathlib import Path

import pytest

from hubnmt.errors import InputError
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from training.config.recipe import RunConfig, load_recipe
from training.data import arrow, prepare
from training.data.corpora import content_key
from training.data.prepare import cache_folder, prepare_corpus


@pytest.fixture
def config(farm_recipe: Path, farm_options, tmp_path: Path) -> RunConfig:
    return load_recipe(farm_recipe, farm_options(tmp_path))


def test_ids_spell_the_cleaned_texts(config: RunConfig) -> None:
    corpus = prepare_corpus(config, None)
    sources = Path(config.data.train[0]).read_text(encoding="utf-8").splitlines()
    spelled = {corpus.tokenizers.src.decode(src) for src, _ in corpus.train}
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
    plain = prepare_corpus(config, None).tokenizers.src
    assert with_strange.tokenizers.src.encode(text) == plain.encode(text)
    assert len(plain.encode("qxqxqx")) > 4


def test_a_resumed_run_keeps_its_vocabulary(config: RunConfig, tmp_path: Path) -> None:
    own = Tokenizer.train(["another text altogether, another text"], 300)
    own.save(tmp_path / "tokenizer.json")
    text = "another text"
    assert prepare_corpus(config, tmp_path).tokenizers.src.encode(text) == own.encode(text)
    assert prepare_corpus(config, None).tokenizers.src.encode(text) != own.encode(text)


def test_the_vocabulary_of_a_model_is_used_in_place_of_a_new_one(config: RunConfig) -> None:
    own = Tokenizer.train(["another text altogether, another text"], 300)
    corpus = prepare_corpus(config, None, tokenizers=Tokenizers(own, own))
    assert corpus.tokenizers.src is corpus.tokenizers.tgt is own
    spelled = {own.decode(src) for src, _ in corpus.train}
    lines = Path(config.data.train[0]).read_text(encoding="utf-8").splitlines()
    assert spelled <= {line.strip() for line in lines}


@pytest.mark.parametrize("joint", [True, False])
def test_what_is_saved_is_what_a_resumed_run_loads(
    joint: bool, farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    more = [] if joint else ["tokenizer.joint=false", "model.share_embeddings=false"]
    config = load_recipe(farm_recipe, farm_options(tmp_path, *more))
    first = prepare_corpus(config, None)
    first.save(tmp_path)
    again = prepare_corpus(config, tmp_path)
    assert list(again.train) == list(first.train)
    assert (again.tokenizers.src is again.tokenizers.tgt) == joint
    assert (tmp_path / "cleaning.json").exists()


@pytest.mark.parametrize(
    ("limit", "n_pieces", "is_warned"),
    [(None, 261, True), (200, 261, False), (None, 1000, False)],
)
def test_small_pieces_of_the_target_are_spoken_of(
    limit: int | None,
    n_pieces: int,
    is_warned: bool,
    config: RunConfig,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = dataclasses.replace(config, decoding={"max_new_tokens": limit})
    texts = [Path(name).read_text(encoding="utf-8").splitlines() for name in config.data.train]
    tokenizers = (Tokenizer.train(texts[0], 1000), Tokenizer.train(texts[1], n_pieces))
    with caplog.at_level("WARNING", "training"):
        prepare_corpus(config, None, tokenizers=tokenizers)
    assert ("set decoding.max_new_tokens (the longest has" in caplog.text) == is_warned


def test_nothing_left_to_train_on_says_what_was_dropped(
    farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    config = load_recipe(farm_recipe, farm_options(tmp_path, "data.max_tokens=1"))
    with pytest.raises(InputError, match="longer than 1 tokens"):
        prepare_corpus(config, None)


def test_a_run_that_an_older_version_began_keeps_its_texts(
    config: RunConfig, tmp_path: Path
) -> None:
    older = content_key(config.data, version=1)
    first = dataclasses.replace(prepare_corpus(config, None), content=older)
    first.save(tmp_path)
    assert prepare_corpus(config, None).content != older
    again = prepare_corpus(config, tmp_path)
    assert again.content == older
    assert list(again.train) == list(first.train)


@pytest.mark.parametrize(("n_broken", "is_told"), [(70, True), (20, False)])
def test_a_corpus_that_is_mostly_no_text_is_told(
    n_broken: int,
    is_told: bool,
    farm_recipe: Path,
    farm_options,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = load_recipe(farm_recipe, farm_options(tmp_path))
    files = []
    for name in (*config.data.train, *config.data.valid):
        lines = Path(name).read_text(encoding="utf-8").splitlines()
        share = n_broken * len(lines) // 120
        lines[:share] = ["\0".join(line) for line in lines[:share]]
        files.append(tmp_path / Path(name).name)
        files[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
    train, valid = (f"{files[i]},{files[i + 1]}" for i in (0, 2))
    sets = farm_options(tmp_path, f"data.train={train}", f"data.valid={valid}")
    prepare_corpus(load_recipe(farm_recipe, sets), None)
    assert (f"main: {n_broken} of 120 pairs are not valid UTF-8" in caplog.text) == is_told
    assert ("validation: 7 of 12 pairs are not valid UTF-8" in caplog.text) == is_told


# --- the cache -----------------------------------------------------------------------------------


def entries(config: RunConfig) -> dict[str, int]:
    """Count the cache's entries of each kind; no draft may be left."""
    names = [path.name.partition("-")[0] for path in cache_folder(config).iterdir()]
    return {kind: names.count(kind) for kind in sorted(set(names)) if kind != "valid"}


def test_a_second_start_reads_nothing_but_the_cache(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = prepare_corpus(config, None)
    for name in ("read_clean", "read_valid", "write_texts", "write_pairs", "read_texts"):
        monkeypatch.setattr(prepare, name, None)
    monkeypatch.setattr(Tokenizer, "train", None)
    monkeypatch.setattr(Tokenizer, "encode_batch", None)
    again = prepare_corpus(config, None)
    assert list(again.train) == list(first.train)
    assert again.valid == first.valid
    assert again.report == first.report
    assert again.tokenizers.src.to_json() == first.tokenizers.src.to_json()
    assert entries(config) == {"pairs": 1, "texts": 1, "vocabulary": 1}


@pytest.mark.parametrize(
    ("change", "kinds"),
    [
        ("data.max_tokens=39", {"pairs": 2, "texts": 1, "vocabulary": 1}),
        ("tokenizer.vocab_size=330", {"pairs": 2, "texts": 1, "vocabulary": 2}),
        ("data.max_length_ratio=2.5", {"pairs": 2, "texts": 2, "vocabulary": 2}),
        ("optimizer.lr=0.5", {"pairs": 1, "texts": 1, "vocabulary": 1}),
        ("data.weight=0.5", {"pairs": 1, "texts": 1, "vocabulary": 1}),
    ],
)
def test_only_what_a_change_touches_is_made_anew(
    change: str, kinds: dict[str, int], farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    for more in ([], [change]):
        config = load_recipe(farm_recipe, farm_options(tmp_path, *more))
        prepare_corpus(config, None)
    assert entries(config) == kinds


def test_changed_texts_are_noticed(
    farm_recipe: Path, farm_options, tmp_path: Path, repo: Path
) -> None:
    files = []
    for side in ("de", "en"):
        lines = (repo / f"tests/fixtures/farm.train.{side}").read_text(encoding="utf-8")
        (tmp_path / f"x.{side}").write_text(lines, encoding="utf-8")
        files.append(str(tmp_path / f"x.{side}"))
    config = load_recipe(farm_recipe, farm_options(tmp_path, f"data.train={','.join(files)}"))
    before = prepare_corpus(config, None)
    for name in files:
        with Path(name).open("a", encoding="utf-8") as file:
            file.write("Noch ein Satz.\n" if name.endswith("de") else "One more sentence.\n")
    after = prepare_corpus(config, None)
    assert after.report.n_read == before.report.n_read + 1
    assert len(after.train) == len(before.train) + 1


def test_another_cache_can_be_named(farm_recipe: Path, farm_options, tmp_path: Path) -> None:
    options = farm_options(tmp_path / "runs", f"data.cache={tmp_path / 'elsewhere'}")
    config = load_recipe(farm_recipe, options)
    prepare_corpus(config, None)
    assert entries(config) == {"pairs": 1, "texts": 1, "vocabulary": 1}
    assert not (tmp_path / "runs").exists()


def test_a_failed_start_leaves_no_half_entry(
    farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    (tmp_path / "short.en").write_text("one\n", encoding="utf-8")
    config = load_recipe(farm_recipe, farm_options(tmp_path))
    src = config.data.train[0]
    torn = load_recipe(farm_recipe, farm_options(tmp_path, f"data.train={src},{tmp_path}/short.en"))
    with pytest.raises(InputError, match=r"120 lines and .*short\.en has 1"):
        prepare_corpus(torn, None)
    assert entries(torn) == {}


def test_reports_of_long_pairs_and_corpora_are_complete(
    farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    (tmp_path / "more.tsv").write_text(
        "de\ten\nKurz.\tShort.\n" + "lang " * 60 + "\t" + "long " * 60 + "\n", encoding="utf-8"
    )
    options = farm_options(tmp_path, f"data.corpora.more.files={tmp_path / 'more.tsv'}")
    corpus = prepare_corpus(load_recipe(farm_recipe, options), None)
    assert corpus.train.counts == [120, 1]
    assert corpus.report.drops == {"more": {"longer than 40 tokens": 1}}
    assert corpus.report.n_kept == len(corpus.train) == 121


def test_a_tag_stands_in_front_of_each_source_of_its_corpus(
    farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    (tmp_path / "back.tsv").write_text("de\ten\nKurz.\tShort.\n", encoding="utf-8")
    back = f"data.corpora.back.files={tmp_path / 'back.tsv'}"
    options = farm_options(tmp_path, back, "data.corpora.back.tag=<bt>")
    corpus = prepare_corpus(load_recipe(farm_recipe, options), None)
    sources = [corpus.tokenizers.src.decode(src) for src, _ in corpus.train]
    assert sources[-1] == "<bt> Kurz."
    assert not any("<bt>" in source for source in sources[:-1])


def test_without_pyarrow_the_message_names_the_extra(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "pa", None)
    with pytest.raises(InputError, match=r"pip install 'hubnmt\[train\]'"):
        prepare_corpus(config, None)


def test_validation_pairs_are_those_of_the_files_now(
    farm_recipe: Path, farm_options, tmp_path: Path
) -> None:
    path = tmp_path / "valid.jsonl"
    settings = farm_options(tmp_path, f"data.valid={path}")
    for src in ("Ein Hund.", "\\ud800 Zwei Hunde."):
        path.write_text(f'{{"de": " {src} ", "en": "Dogs."}}\n', encoding="utf-8")
        valid = prepare_corpus(load_recipe(farm_recipe, settings), None).valid
        assert valid == [(src.replace("\\ud800", "?"), "Dogs.")]
