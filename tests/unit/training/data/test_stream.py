"""The stream of batches: one order for every start, shared out without loss or overlap."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hubnmt.errors import ConfigError
from training.config.recipe import RunConfig, load_recipe
from training.data.batching import Batch
from training.data.loader import BatchStream
from training.data.prepare import Corpus, prepare_corpus

FarmOptions = Callable[..., list[str]]
Line = tuple[tuple[int, ...], ...]


@pytest.fixture(scope="module")
def make_config(
    farm_recipe: Path, farm_options: FarmOptions, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., RunConfig]:
    folder = tmp_path_factory.mktemp("stream")
    few = ["optimizer.batch_tokens=120", "optimizer.accumulate=1"]
    return lambda *more: load_recipe(farm_recipe, farm_options(folder, *few, *more))


@pytest.fixture(scope="module")
def corpus(make_config: Callable[..., RunConfig]) -> Corpus:
    return prepare_corpus(make_config(), None)


def lines_of(batch: Batch, corpus: Corpus) -> list[Line]:
    """Return the ids of each pair, without padding."""
    pad = corpus.tokenizers.src.pad_id
    rows = zip(batch.src.src_ids.tolist(), batch.tgt_in.tolist(), strict=True)
    return [tuple(tuple(i for i in ids if i != pad) for ids in row) for row in rows]


def pairs_of(batches: Iterator[Batch] | list[Batch], corpus: Corpus) -> list[Line]:
    return [line for batch in batches for line in lines_of(batch, corpus)]


def test_an_epoch_holds_every_pair_once(
    make_config: Callable[..., RunConfig], corpus: Corpus
) -> None:
    stream = BatchStream(make_config(), corpus)
    epochs = [pairs_of(stream.epoch(epoch), corpus) for epoch in (0, 1)]
    assert len(epochs[0]) == len(corpus.train)
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert epochs[0] != epochs[1]
    spelled = sorted((*src, corpus.tokenizers.src.eos_id) for src, _ in corpus.train)
    assert sorted(src for src, _ in epochs[0]) == spelled


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("skip", [0, 1, 5])
def test_from_any_point_it_goes_on_as_from_the_start(
    skip: int, dropout: float, make_config: Callable[..., RunConfig], corpus: Corpus
) -> None:
    config = make_config(f"data.bpe_dropout={dropout}")
    whole = [lines_of(batch, corpus) for batch in BatchStream(config, corpus).epoch(2)]
    rest = [lines_of(batch, corpus) for batch in BatchStream(config, corpus).epoch(2, skip=skip)]
    assert len(whole) > 6
    assert rest == whole[skip:]


def test_behind_the_end_there_is_nothing(
    make_config: Callable[..., RunConfig], corpus: Corpus
) -> None:
    stream = BatchStream(make_config(), corpus)
    assert list(stream.epoch(1, skip=len(stream.plan(1)))) == []


def test_another_seed_is_another_order(
    make_config: Callable[..., RunConfig], corpus: Corpus
) -> None:
    orders = [
        pairs_of(BatchStream(make_config(f"run.seed={seed}"), corpus).epoch(0), corpus)
        for seed in (5, 6)
    ]
    assert orders[0] != orders[1]


@pytest.mark.parametrize("world_size", [2, 3, 7])
def test_processes_share_an_epoch_without_loss_or_overlap(
    world_size: int, make_config: Callable[..., RunConfig], corpus: Corpus
) -> None:
    shares = [
        list(BatchStream(make_config(), corpus, rank=rank, world_size=world_size).epoch(1))
        for rank in range(world_size)
    ]
    assert len({len(share) for share in shares}) == 1
    found = Counter(line for share in shares for line in pairs_of(share, corpus))
    assert found == Counter(pairs_of(BatchStream(make_config(), corpus).epoch(1), corpus))


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_two_processes_learn_in_a_step_what_one_does_with_twice_the_accumulation(
    dropout: float, make_config: Callable[..., RunConfig], corpus: Corpus
) -> None:
    setting = f"data.bpe_dropout={dropout}"
    alone = BatchStream(make_config(setting, "optimizer.accumulate=2"), corpus)
    one = [lines_of(batch, corpus) for batch in alone.epoch(0)]
    shares = [
        [
            lines_of(batch, corpus)
            for batch in BatchStream(make_config(setting), corpus, rank=r, world_size=2).epoch(0)
        ]
        for r in (0, 1)
    ]
    assert len(one) == 2 * len(shares[0])
    assert [one[n : n + 2] for n in range(0, len(one), 2)] == [
        list(step) for step in zip(*shares, strict=True)
    ]


@pytest.mark.parametrize("world_size", [1, 2])
def test_the_first_step_of_each_process_is_its_largest(
    world_size: int, make_config: Callable[..., RunConfig], corpus: Corpus
) -> None:
    for rank in range(world_size):
        stream = BatchStream(make_config(), corpus, rank=rank, world_size=world_size)
        sizes = [batch.src.src_ids.numel() + batch.tgt_in.numel() for batch in stream.epoch(0)]
        assert sizes[0] == max(sizes)
        assert sizes != sorted(sizes, reverse=True)


def test_too_few_pairs_for_the_processes_are_refused(
    make_config: Callable[..., RunConfig], corpus: Corpus
) -> None:
    with pytest.raises(ConfigError, match=r"an epoch of 120 pairs is too small for 121 batches"):
        BatchStream(make_config(), corpus, world_size=121).plan(0)


def test_weights_that_leave_nothing_are_refused(
    make_config: Callable[..., RunConfig], corpus: Corpus
) -> None:
    """An endless search for a batch would be the alternative."""
    with pytest.raises(ConfigError, match=r"an epoch of 0 pairs is too small.*raise the weights"):
        BatchStream(make_config("data.weight=0.001"), corpus).plan(0)


# --- dropout -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sides", "changed"), [("both", "st"), ("src", "s"), ("tgt", "t")])
def test_dropout_splits_the_sides_it_is_for_and_spells_the_same(
    sides: str, changed: str, make_config: Callable[..., RunConfig], corpus: Corpus
) -> None:
    config = make_config("data.bpe_dropout=0.3", f"data.bpe_dropout_sides={sides}")
    plain = pairs_of(BatchStream(make_config(), corpus).epoch(0), corpus)
    dropped = pairs_of(BatchStream(config, corpus).epoch(0), corpus)
    decode = corpus.tokenizers.src.decode
    texts = [sorted(tuple(map(decode, line)) for line in lines) for lines in (plain, dropped)]
    assert texts[0] == texts[1]
    for side, letter in enumerate("st"):
        same = sorted(line[side] for line in plain) == sorted(line[side] for line in dropped)
        assert same is (letter not in changed)


def test_dropout_differs_from_epoch_to_epoch(
    make_config: Callable[..., RunConfig], corpus: Corpus
) -> None:
    stream = BatchStream(make_config("data.bpe_dropout=0.3"), corpus)
    assert len({frozenset(pairs_of(stream.epoch(epoch), corpus)) for epoch in range(3)}) == 3


def test_dropout_makes_no_pair_longer_than_the_longest(
    make_config: Callable[..., RunConfig], corpus: Corpus
) -> None:
    longest = int(corpus.train.lengths.max())
    config = make_config("data.bpe_dropout=0.9", f"data.max_tokens={longest}")
    for line in pairs_of(BatchStream(config, corpus).epoch(0), corpus):
        assert max(map(len, line)) <= longest + 1  # bos or eos


# --- weights -------------------------------------------------------------------------------------


def test_weights_decide_how_often_a_pair_is_met(
    farm_recipe: Path, farm_options: FarmOptions, tmp_path: Path, repo: Path
) -> None:
    lines = {
        s: (repo / f"tests/fixtures/farm.train.{s}").read_text().splitlines() for s in ("de", "en")
    }
    for name, rows in (("a", slice(0, 40)), ("b", slice(40, 120))):
        for side, texts in lines.items():
            (tmp_path / f"{name}.{side}").write_text("\n".join(texts[rows]) + "\n")
    options = farm_options(
        tmp_path,
        f"data.train={tmp_path}/a.de,{tmp_path}/a.en",
        f"data.corpora.b.files={tmp_path}/b.de,{tmp_path}/b.en",
        "data.corpora.b.weight=0.25",
        "data.weight=2",
    )
    config = load_recipe(farm_recipe, options)
    corpus = prepare_corpus(config, None)
    assert corpus.train.counts == [40, 80]
    stream = BatchStream(config, corpus)
    quarters = []
    for epoch in (0, 1):
        plan = stream.plan(epoch)
        met = Counter(row for number in range(len(plan)) for row in plan[number])
        assert all(met[row] == 2 for row in range(40))
        quarters.append({row for row in met if row >= 40})
        assert all(met[row] == 1 for row in quarters[-1])
    assert [len(quarter) for quarter in quarters] == [20, 20]
    assert quarters[0] != quarters[1]
