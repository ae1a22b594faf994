"""What every test may ask for: a tiny config, tokenizer and model, the bundled one, and no network.

All sizes of the tiny things differ, because equal lengths hide swapped axes. No test reaches beyond
this machine unless it is marked `network`; inside a test the outside world looks unplugged.
"""

import importlib.util
import ipaddress
import os
import random
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# Libraries read these once, when they are imported; a reader's own caches and token stay untouched.
_SCRATCH_HOME = tempfile.mkdtemp(prefix="hubnmt-tests-")
os.environ.update(
    GRADIO_ANALYTICS_ENABLED="False",
    HF_HOME=_SCRATCH_HOME,
    HF_HUB_DISABLE_TELEMETRY="1",
    HF_HUB_DISABLE_PROGRESS_BARS="1",
    HF_HUB_DISABLE_XET="1",
    HYPOTHESIS_STORAGE_DIRECTORY=_SCRATCH_HOME,
)
for _name in ("HF_TOKEN", "HF_ENDPOINT", "HUBNMT_MODEL", "HUBNMT_HUB"):
    os.environ.pop(_name, None)
# A shell starts what runs in its background deaf to Ctrl-C, and our tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest  # noqa: E402  # the settings above come first
import torch  # noqa: E402

from hubnmt.checkpoint.folder import StoredModel  # noqa: E402
from hubnmt.config import DecodingConfig, ModelConfig  # noqa: E402
from hubnmt.model.transformer import Transformer  # noqa: E402
from hubnmt.text.tokenizer import Tokenizer, Tokenizers  # noqa: E402
from tests.environments import find_chromium  # noqa: E402
from tests.hub import open_hub, save_with_card  # noqa: E402
from tests.hub_server import HubServer  # noqa: E402

REPO = Path(__file__).parents[1]
BUNDLED = "de-en-multi30k"


# --- what runs -----------------------------------------------------------------------------------


def _missing(marker: str) -> str | None:
    """Say why tests with this marker cannot run here, or None."""
    if marker == "slow" and not os.environ.get("CI"):
        return "slow: set CI=true or ask with -m slow"
    if marker == "network":
        return "needs the Internet: ask with -m network"
    if marker == "gpu" and not torch.cuda.is_available():
        return "no CUDA device"
    if marker == "browser" and find_chromium() is None:
        return "no Chromium on the PATH"
    if marker == "browser" and importlib.util.find_spec("playwright") is None:
        return "playwright is not installed"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip, with its reason, what cannot run here; a marker asked for with -m is not skipped."""
    asked = config.getoption("markexpr")
    for marker in ("slow", "network", "gpu", "browser"):
        reason = _missing(marker)
        by_wish = marker in ("slow", "network") and marker in asked
        if reason is None or by_wish:
            continue
        for item in items:
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_unconfigure() -> None:
    """Remove the scratch home."""
    shutil.rmtree(_SCRATCH_HOME, ignore_errors=True)


# --- no network ----------------------------------------------------------------------------------


class _Network:
    is_open = False


def _is_local(host: object) -> bool:
    if host in (None, "", "localhost", b"localhost", socket.gethostname()):
        return True
    try:
        address = ipaddress.ip_address(host.decode() if isinstance(host, bytes) else str(host))
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _guard(call: Callable[..., Any], host_of: Callable[..., object]) -> Callable[..., Any]:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        host = host_of(*args, **kwargs)
        if not _Network.is_open and not _is_local(host):
            raise ConnectionError(f"tests have no network, and this one asked for {host!r}")
        return call(*args, **kwargs)

    return guarded


def _host_of_address(_socket: object, address: object, *_: object) -> object:
    return address[0] if isinstance(address, tuple) else None  # a str is a Unix socket's path


def pytest_configure() -> None:
    """Unplug the network for the whole session, threads and session fixtures included."""
    for name in ("connect", "connect_ex"):
        guarded = _guard(getattr(socket.socket, name), _host_of_address)
        setattr(socket.socket, name, guarded)
    socket.getaddrinfo = _guard(socket.getaddrinfo, lambda host, *_, **__: host)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Plug it in for tests marked `network`."""
    _Network.is_open = item.get_closest_marker("network") is not None


def pytest_runtest_teardown() -> None:
    """Unplug it again."""
    _Network.is_open = False


# --- tiny things ---------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _same_seed() -> None:
    """Each test starts from the same random state, alone or in any order."""
    random.seed(20170612)
    torch.manual_seed(20170612)


@pytest.fixture(scope="session")
def tiny_texts() -> list[str]:
    """A few sentences in three scripts."""
    return [
        "Ein Hund rennt im Schnee.",
        "Zwei Männer stehen am Herd und bereiten Essen zu.",
        "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
        "Eine Frau in Blau fährt mit dem Fahrrad durch die Straße.",
        "A dog is running in the snow.",
        "Two men are at the stove preparing food.",
        "A little girl climbs into a wooden playhouse.",
        "A woman in blue rides a bicycle down the street.",
        "മഞ്ഞിൽ ഒരു നായ ഓടുന്നു.",
    ]


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_texts: list[str]) -> Tokenizer:
    """A joint vocabulary of 300 pieces: 3 special, 256 bytes, 41 merges."""
    return Tokenizer.train(tiny_texts, 300)


@pytest.fixture(scope="session")
def tiny_config(tiny_tokenizer: Tokenizer) -> ModelConfig:
    """H = 3, E = 4, D = 12, F = 20; one encoder layer, two decoder layers."""
    return ModelConfig(
        src_lang="de",
        tgt_lang="en",
        src_vocab_size=tiny_tokenizer.vocab_size,
        tgt_vocab_size=tiny_tokenizer.vocab_size,
        d_model=12,
        n_heads=3,
        d_ff=20,
        n_encoder_layers=1,
        n_decoder_layers=2,
        max_src_tokens=40,
    )


@pytest.fixture
def tiny_model(tiny_config: ModelConfig) -> Transformer:
    """Seeded random weights, ready to translate badly; a new one for each test."""
    torch.manual_seed(20170612)
    return Transformer(tiny_config).eval()


@pytest.fixture
def tiny_stored(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> StoredModel:
    """The tiny model with one vocabulary for both languages."""
    tokenizers = Tokenizers(tiny_tokenizer, tiny_tokenizer)
    return StoredModel(model=tiny_model, tokenizers=tokenizers, decoding=DecodingConfig())


# --- a run of a second ---------------------------------------------------------------------------


@pytest.fixture(scope="session")
def farm_recipe(repo: Path) -> Path:
    """A recipe without files and folder."""
    return repo / "tests" / "fixtures" / "farm.toml"


@pytest.fixture(scope="session")
def farm_options(repo: Path) -> Callable[..., list[str]]:
    """Make the settings that the recipe leaves open, and any others: section.key=value."""
    fixtures = repo / "tests" / "fixtures"

    def options(folder: Path, *more: str) -> list[str]:
        pairs = {
            split: ",".join(str(fixtures / f"farm.{split}.{side}") for side in ("de", "en"))
            for split in ("train", "valid")
        }
        return [
            f"run.folder={folder}",
            *(f"data.{split}={pair}" for split, pair in pairs.items()),
            *more,
        ]

    return options


# --- a Hub of one's own ---------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """An empty Hub on loopback that `user` may write to, and an empty cache."""
    with open_hub(monkeypatch, tmp_path / "hub-cache") as server:
        yield server


@pytest.fixture
def model_folder(tiny_model: Transformer, tiny_tokenizer: Tokenizer, tmp_path: Path) -> Path:
    """A model folder with a full card."""
    return save_with_card(tmp_path / "de-en-tiny", tiny_model, tiny_tokenizer)


# --- the real thing ------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def repo() -> Path:
    """The checkout."""
    return REPO


@pytest.fixture(scope="session")
def bundled_model(repo: Path) -> Path:
    """The folder of the bundled model; skips where it is not there yet."""
    folder = repo / "hubnmt" / "pretrained" / BUNDLED
    if not (folder / "model.safetensors").is_file():
        pytest.skip(f"{folder.relative_to(repo)} holds no model yet")
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Variables for a child process of a test: offline, without Python's, one cache for itself."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return others | {"HF_HOME": str(tmp_path / "hf-home"), "HF_HUB_OFFLINE": "1"}
