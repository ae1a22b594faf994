"""Whatever a model folder holds, it loads or is refused in one line, and takes little memory.

The folder is loaded in a process of its own, whose memory is limited: see `tests/loading.py`.
"""

import copy
import json
import multiprocessing
import shutil
import struct
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hubnmt.config import ModelConfig
from hubnmt.model.transformer import Transformer
from hubnmt.text.tokenizer import Tokenizer
from tests.hub import save_with_card
from tests.loading import limit_memory, try_to_load

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")

EXTRA_MIB, LIMIT_MIB = 96, 512
"""What loading may take beside what a sound folder took, and where the system ends it."""

some = settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)

Check = Callable[[str, bytes | Path], None]


@pytest.fixture(scope="module")
def sound(
    tmp_path_factory: pytest.TempPathFactory, tiny_config: ModelConfig, tiny_tokenizer: Tokenizer
) -> Path:
    torch.manual_seed(1)
    folder = tmp_path_factory.mktemp("models") / "sound"
    return save_with_card(folder, Transformer(tiny_config).eval(), tiny_tokenizer)


@pytest.fixture(scope="module")
def check(sound: Path) -> Iterator[Check]:
    """Put a file, or a link, in the place of a sound one and load the folder."""
    folder = shutil.copytree(sound, sound.with_name("changed"))
    spawn = multiprocessing.get_context("spawn")
    limit = {"initializer": limit_memory, "initargs": (sound, LIMIT_MIB)}
    with ProcessPoolExecutor(1, spawn, **limit) as pool:
        most_mib = pool.submit(try_to_load, sound).result()["peak_mib"] + EXTRA_MIB

        def load_with(name: str, content: bytes | Path) -> None:
            (folder / name).unlink()
            if isinstance(content, Path):
                (folder / name).symlink_to(content)
            else:
                (folder / name).write_bytes(content)
            answer = pool.submit(try_to_load, folder).result()
            (folder / name).unlink()
            shutil.copyfile(sound / name, folder / name)
            assert not answer["kinds"] or "HubNMTError" in answer["kinds"], answer
            assert len(answer["message"].splitlines()) <= 1
            assert len(answer["message"].encode()) < 2000
            assert answer["peak_mib"] <= most_mib

        yield load_with


# --- what may stand in a file --------------------------------------------------------------------

numbers = st.integers() | st.floats() | st.sampled_from([2**31, 2**63, 2**64, -1, 0, 10**300])
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def changed(draw: st.DrawFn, original: Any) -> Any:
    """Draw a value that differs from one of JSON in a few places, however deep."""
    result = copy.deepcopy(original)
    for _ in range(draw(st.integers(1, 3))):
        inner = result
        while (
            isinstance(inner, (dict, list)) and inner and (inner is result or draw(st.booleans()))
        ):
            place = inner
            key = draw(st.sampled_from(range(len(place)) if isinstance(place, list) else [*place]))
            inner = place[key]
        if draw(st.booleans()):
            place[key] = draw(values)
        else:
            del place[key]
    return result


def file_like(path: Path) -> st.SearchStrategy[bytes]:
    """Draw a JSON file much like another, or any."""
    original = json.loads(path.read_text("utf-8"))
    return (changed(original) | values).map(lambda value: json.dumps(value).encode()) | st.binary()


@pytest.mark.parametrize("name", ["config.json", "decoding.json", "tokenizer.json"])
def test_any_json(name: str, sound: Path, check: Check):
    @some
    @given(file_like(sound / name))
    @example(b"[" * 200_000)
    @example(b"[" + b"[]," * 2_000_000 + b"[]]")
    @example(b" " * 3_000_000)
    @example(b'{"a": ' * 50_000)
    @example(b'{"a": "\\ud800"}')
    @example(b"9" * 1_000_000)
    @example(b'{"model": {"vocab": {}, "merges": [' + b'["a","b"],' * 10**6 + b'["a","b"]]}}')
    def load(content: bytes) -> None:
        check(name, content)

    load()


def test_a_large_config_is_refused_before_memory_is_taken(sound: Path, check: Check):
    config = json.loads((sound / "config.json").read_text("utf-8"))
    check("config.json", json.dumps(config | {"d_ff": 2**17, "n_encoder_layers": 200}).encode())


def test_any_header_of_weights(sound: Path, check: Check):
    weights = (sound / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", weights[:8])
    header, numbers = json.loads(weights[8 : 8 + length]), weights[8 + length :]

    @some
    @given(changed(header) | values, st.none() | st.integers(0, 2**64 - 1), st.binary())
    @example(header | {"src_embedding.weight": {"dtype": "F32", "shape": [2**62, 4]}}, None, b"")
    @example(
        {f"t{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(20_000)},
        None,
        b"",
    )
    def load(values: Any, stated: int | None, more: bytes) -> None:
        text = json.dumps(values).encode()
        start = struct.pack("<Q", len(text) if stated is None else stated)
        check("model.safetensors", start + text + numbers + more)

    load()


yaml_text = st.lists(
    st.sampled_from(
        [*"-?:,[]{}#&*!|>'\"%@` \n\t\\~=<.", "a", "b", "0", "1", ":59", "!!", "---", "<<"]
    )
    | st.sampled_from(["!!int ", "!!bool ", "!!timestamp ", "!!float ", "!!binary ", "!!set "])
    | st.text(max_size=3),
    max_size=40,
).map("".join)


@some
@given(head=yaml_text)
@example(head="x: 1" + ":59" * 400 + ".5")
@example(head="x: !!int ''")
@example(head="x: !!bool maybe")
@example(head="x: !!timestamp x")
@example(head="[" * 15_000)
@example(head="- " * 9_000)
@example(head="a: &a [x]\n" + "".join(f"b{n}: [*a, *a]\n" for n in range(800)))
@example(head='x: "' + "\\UFFFFFFFF" * 10 + '"')
def test_any_card(head: str, check: Check):
    check("README.md", f"---\n{head}\n---\n# text\n".encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "name", ["config.json", "decoding.json", "tokenizer.json", "model.safetensors", "README.md"]
)
def test_any_link(name: str, check: Check):
    """Files that the system makes up have no size, and some cannot be read or have no end."""
    for target in ("mem", "pagemap", "environ", "maps", "clear_refs", "exe", "cwd", "nothing"):
        check(name, Path("/proc/self", target))
    check(name, Path("/dev/zero"))
