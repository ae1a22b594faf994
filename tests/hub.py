"""A Hub of a test's own, and what tests of the Hub share."""

import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from huggingface_hub import close_session, constants

from hubnmt.checkpoint.card import CardFacts, TestResult, write_card
from hubnmt.checkpoint.folder import StoredModel, save_model
from hubnmt.config import DecodingConfig
from hubnmt.model.transformer import Transformer
from hubnmt.text.metrics import Scores
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from tests.hub_server import HubServer, User

TOKEN = "hf_tokenOfTheWriterThatNobodyMaySee12345"
READER = "hf_tokenOfAReaderThatNobodyMaySee1234567"
REPO = "user/de-en-tiny"


RESULT = TestResult(
    name="Multi30k test_2016_flickr",
    dataset="bentrevett/multi30k",
    scores=Scores(
        n=1000,
        bleu=41.248,
        bleu_signature="nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1",
        chrf=60.5,
        chrf_signature="nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.5.1",
        chrf_plus_plus=58.0,
        bleu_interval=1.44,
    ),
    decoding=DecodingConfig(beam_size=8, length_penalty=1.2),
)


@contextmanager
def open_hub(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Iterator[HubServer]:
    """Serve an empty Hub and make it the one this process talks to, with a cache of its own.

    Waiting is skipped, here and in the client: it would make the tests slow and prove nothing.
    """
    with HubServer() as hub:
        hub.store.users |= {TOKEN: User("user"), READER: User("reader", can_write=False)}
        monkeypatch.setenv("HF_ENDPOINT", hub.url)  # of processes that a test starts
        template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        known = {"ENDPOINT": hub.url, "HUGGINGFACE_CO_URL_TEMPLATE": template}
        for name, value in known.items():  # read from the environment at import
            monkeypatch.setattr(constants, name, value)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
        no_time = types.SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic)
        monkeypatch.setattr("huggingface_hub.utils._http.time", no_time)
        monkeypatch.setattr("huggingface_hub.file_download.time", no_time)
        yield hub
        close_session()


def save_with_card(
    folder: Path, model: Transformer, tokenizer: Tokenizer, *, license: str = "other"
) -> Path:
    """Write a model folder with a full card."""
    facts = CardFacts(
        name=folder.name,
        title="Grüße: German to English",
        config=model.config,
        license=license,
        datasets=("bentrevett/multi30k",),
        results=[RESULT],
    )
    stored = StoredModel(
        model=model,
        tokenizers=Tokenizers(tokenizer, tokenizer),
        decoding=DecodingConfig(beam_size=2),
        card=write_card(facts),
    )
    save_model(folder, stored)
    return folder


def change_weights(model: Transformer) -> None:
    """Make it another model of the same shape."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.125)


def read_folder(folder: Path) -> dict[str, bytes]:
    """Return the content of a folder's files by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
