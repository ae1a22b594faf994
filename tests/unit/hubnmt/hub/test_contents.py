"""What counts as a model folder on the Hub."""

import dataclasses

import pytest

from hubnmt.config import ModelConfig
from hubnmt.errors import HubError
from hubnmt.hub.contents import (
    ALLOWED,
    LIMITS_MIB,
    WEIGHTS,
    check_sizes,
    choose_files,
    largest_size,
)

GOOD: dict[str, int | None] = {
    "config.json": 100,
    "tokenizer.json": 100,
    "model.safetensors": 100,
}


def test_config_comes_first_and_weights_last():
    names = choose_files(dict.fromkeys(reversed(ALLOWED), 1), target="user/name")
    assert names[0] == "config.json"
    assert names[-1] == "model.safetensors"
    assert set(names) == set(ALLOWED)


def test_two_tokenizers_do_as_well():
    files = {name: size for name, size in GOOD.items() if name != "tokenizer.json"}
    with pytest.raises(HubError, match=r"no tokenizer\.json"):
        choose_files(files | {"tokenizer_src.json": 1}, target="user/name")
    chosen = choose_files(
        files | {"tokenizer_src.json": 1, "tokenizer_tgt.json": 1}, target="user/name"
    )
    assert len(chosen) == 4


@pytest.mark.parametrize(
    "name",
    ["model.bin", "a/config.json", "../config.json", "config.json/", ".env", "model.py", "x.pkl"],
)
def test_no_other_name_is_chosen(name: str):
    assert name not in choose_files({**GOOD, name: 1}, target="user/name")


@pytest.mark.parametrize("missing", GOOD)
def test_what_is_missing_is_named(missing: str):
    files = {name: size for name, size in GOOD.items() if name != missing}
    with pytest.raises(HubError, match=f"not a hubnmt model: it has no {missing}"):
        choose_files(files, target="user/name")


def test_another_librarys_model_is_named_though_its_files_look_like_ours():
    with pytest.raises(HubError, match="a model of the library 'marian'; `hubnmt list`"):
        choose_files(GOOD, target="user/name", library="marian")


@pytest.mark.parametrize("name", LIMITS_MIB)
def test_each_small_file_has_a_limit(name: str):
    limit = LIMITS_MIB[name] * 2**20
    choose_files({**GOOD, name: limit}, target="user/name")
    with pytest.raises(HubError, match="at most"):
        choose_files({**GOOD, name: limit + 1}, target="user/name")


def test_weights_must_have_the_size_of_their_config(tiny_config: ModelConfig):
    n = tiny_config.n_parameters
    for size in (2 * n, 4 * n + 5000, None):
        check_sizes({WEIGHTS: size}, tiny_config, target="user/name")
    for size in (2 * n - 1, 4 * n + 2**25):
        with pytest.raises(HubError, match="describes"):
            check_sizes({WEIGHTS: size}, tiny_config, target="user/name")


def test_the_size_follows_the_config(tiny_config: ModelConfig):
    wider = dataclasses.replace(tiny_config, d_ff=tiny_config.d_ff * 64)
    check_sizes({WEIGHTS: 2 * wider.n_parameters}, wider, target="user/name")
    with pytest.raises(HubError, match="describes"):
        check_sizes({WEIGHTS: 2 * tiny_config.n_parameters}, wider, target="user/name")


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_src.json", "tokenizer_tgt.json"])
def test_a_tokenizer_may_be_as_large_as_its_vocabulary_asks(tiny_config: ModelConfig, name: str):
    most = largest_size(name, tiny_config)
    assert most < 2**18
    check_sizes({name: most}, tiny_config, target="user/name")
    with pytest.raises(HubError, match=f"{name} has .* describes a vocabulary"):
        check_sizes({name: most + 1}, tiny_config, target="user/name")


def test_without_a_config_each_file_has_its_limit():
    assert {largest_size(name, None) for name in LIMITS_MIB} == {
        limit * 2**20 for limit in LIMITS_MIB.values()
    }
