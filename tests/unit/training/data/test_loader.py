"""The loader: one order for every start, shared by processes without loss or overlap."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch

from hubnmt.text.tokenizer import Tokenizer
from tests.runs import FarmOptions
from training.config.recipe import load_recipe
from training.data.batching import Batch
from training.data.loader import BpeDropout, Loader, Position
from training.data.prepare import prepare_data
from training.distributed import ProcessGroup

MakeLoader = Callable[..., Loader]
Line = tuple[tuple[int, ...], ...]


@pytest.fixture(scope="module")
def make_loader(
    farm_recipe: Path, farm_options: FarmOptions, tmp_path_factory: pytest.TempPathFactory
) -> MakeLoader:
    folder = tmp_path_factory.mktemp("loader")
    few = ["optimizer.batch_tokens=120", "optimizer.accumulate=1"]

    def make(*more: str, rank: int = 0, size: int = 1) -> Loader:
        recipe = load_recipe(farm_recipe, farm_options(folder, *few, *more))
        group = ProcessGroup(torch.device("cpu"), rank=rank, size=size)
        return Loader(recipe, prepare_data(recipe, None), group)

    return make


def lines_of(batches: Iterable[Batch]) -> list[list[Line]]:
    """Return the ids of each pair of each batch, without padding, which is 0."""
    every = (zip(b.src.src_ids.tolist(), b.tgt_in.tolist(), strict=True) for b in batches)
    return [[tuple(tuple(filter(None, ids)) for ids in row) for row in rows] for rows in every]


def pairs_of(batches: Iterable[Batch]) -> list[Line]:
    return [line for lines in lines_of(batches) for line in lines]


def test_it_continues_from_any_position(make_loader: MakeLoader) -> None:
    setting = "data.bpe_dropout=0.3"
    loader, other = make_loader(setting), make_loader(setting)
    position = Position()
    while position.epoch < 2:
        share = loader.take(1)
        other.seek(position)
        assert lines_of(other.take(1).batches) == lines_of(share.batches)
        position = share.after


@pytest.mark.parametrize(("size", "dropout"), [(2, 0.0), (3, 0.3)])
def test_processes_share_the_batches_of_one_with_more_accumulation(
    size: int, dropout: float, make_loader: MakeLoader
) -> None:
    setting = f"data.bpe_dropout={dropout}"
    alone = make_loader(setting, f"optimizer.accumulate={size}").take(4 * size)
    shares = [make_loader(setting, rank=rank, size=size).take(4) for rank in range(size)]
    assert {share.after for share in shares} == {alone.after}
    together = [share.batches[n] for n in range(4) for share in shares]
    assert lines_of(together) == lines_of(alone.batches)


@pytest.mark.parametrize(("sides", "changed"), [("both", "st"), ("src", "s"), ("tgt", "t")])
def test_dropout_splits_the_sides_it_is_for_and_spells_the_same(
    sides: str, changed: str, make_loader: MakeLoader
) -> None:
    loader = make_loader("data.bpe_dropout=0.3", f"data.bpe_dropout_sides={sides}")
    plain, dropped = pairs_of(make_loader().epoch(0)), pairs_of(loader.epoch(0))
    decode = loader._run_data.tokenizers.src.decode
    texts = [sorted(tuple(map(decode, line)) for line in lines) for lines in (plain, dropped)]
    assert texts[0] == texts[1]
    for side, letter in enumerate("st"):
        same = sorted(line[side] for line in plain) == sorted(line[side] for line in dropped)
        assert same is (letter not in changed)
    assert sorted(dropped) != sorted(pairs_of(loader.epoch(1)))


def test_weights_decide_how_often_a_pair_is_met(
    make_loader: MakeLoader, repo: Path, tmp_path: Path
) -> None:
    for side in ("de", "en"):
        lines = (repo / f"tests/fixtures/farm.train.{side}").read_text().splitlines()
        (tmp_path / f"a.{side}").write_text("\n".join(lines[:40]) + "\n")
        (tmp_path / f"b.{side}").write_text("\n".join(lines[40:]) + "\n")
    files = [f"{tmp_path}/{name}.de,{tmp_path}/{name}.en" for name in "ab"]
    loader = make_loader(
        f"data.train={files[0]}",
        f"data.corpora.b.files={files[1]}",
        "data.corpora.b.weight=0.25",
        "data.weight=2",
    )
    quarters = []
    for epoch in (0, 1):
        met = Counter(row for rows in loader.plan(epoch) for row in rows.tolist())
        assert all(met[row] == 2 for row in range(40))
        quarters.append({row for row in met if row >= 40})
        assert all(met[row] == 1 for row in quarters[-1])
    assert [len(quarter) for quarter in quarters] == [20, 20]
    assert quarters[0] != quarters[1]


@pytest.fixture(scope="module")
def tokenizer(tiny_texts: list[str]) -> Tokenizer:
    return Tokenizer.train(tiny_texts * 2, 500)


AWKWARD = ["", "x", "Grüße, naïve 12:30", "  two  spaces ", "🙂 <bt> ഓടുന്നു", "never seen: Żółw"]


def test_no_dropout_splits_as_the_tokenizer_does(
    tokenizer: Tokenizer, tiny_texts: list[str]
) -> None:
    """The merge loop here and the library's agree, which is the oracle for all the rest."""
    drop = BpeDropout(tokenizer, 0.0)
    for text in [*tiny_texts, *AWKWARD]:
        ids = tokenizer.encode(text)
        assert drop(ids, random.Random(1)) == ids
