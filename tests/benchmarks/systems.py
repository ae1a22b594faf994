"""What benchmarks share: shapes, vocabularies, the peer of `transformers`, and time by turns."""

import random
import string
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hubnmt.config import ModelConfig
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

if TYPE_CHECKING:  # a peer, no need of ours
    from transformers import MarianConfig

Job = Callable[[], object]


def take_turns(
    jobs: dict[str, Job], n_rounds: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Run the jobs once to warm up, then in turn, so that a busy machine slows all of them alike.

    Returns:
        the seconds of each job by the clock, in each round.
    """
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for job in jobs.values():
        job()
    for _ in range(n_rounds):
        for name, job in jobs.items():
            started = clock()
            job()
            seconds[name].append(clock() - started)
    return seconds


def _shape(n_layers: int, vocab_size: int, **more: Any) -> ModelConfig:
    return ModelConfig(
        src_lang="x",
        tgt_lang="y",
        src_vocab_size=vocab_size,
        tgt_vocab_size=vocab_size,
        n_encoder_layers=n_layers,
        n_decoder_layers=n_layers,
        **more,
    )


SHAPES = {
    "toy": _shape(1, 300, d_model=16, n_heads=2, d_ff=16),
    "tiny": _shape(4, 8_000, d_model=128, n_heads=4, d_ff=256, dropout=0.3),
    "small": _shape(3, 8_000, d_model=256, n_heads=4, d_ff=1024),
    "base": _shape(6, 16_000, d_model=512, n_heads=8, d_ff=2048),
}
"""All vocabulary matrices are tied, in the peer too."""


def make_tokenizers(vocab_size: int) -> Tokenizers:
    """Learn a joint vocabulary from random words: the texts of these benchmarks are random ids."""
    rng = random.Random(1)
    words = ("".join(rng.choices(string.ascii_lowercase, k=8)) for _ in range(vocab_size))
    tokenizer = Tokenizer.train(words, vocab_size)
    assert tokenizer.vocab_size == vocab_size
    return Tokenizers(tokenizer, tokenizer)


def marian_config(shape: ModelConfig, **other: Any) -> "MarianConfig":
    """Configure the peer with our shape and special ids; `other` are more of its fields."""
    from transformers import MarianConfig

    return MarianConfig(
        vocab_size=shape.src_vocab_size,
        d_model=shape.d_model,
        encoder_layers=shape.n_encoder_layers,
        decoder_layers=shape.n_decoder_layers,
        encoder_attention_heads=shape.n_heads,
        decoder_attention_heads=shape.n_heads,
        encoder_ffn_dim=shape.d_ff,
        decoder_ffn_dim=shape.d_ff,
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=1,
        **other,
    )
