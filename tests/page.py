"""A page to test: a translator that answers at once, and a server on a port of its own."""

import contextlib
import itertools
import socket
from collections.abc import Generator, Iterator
from types import SimpleNamespace
from typing import Any

import torch

from hubnmt.attention.maps import Attention, TokenSpans
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.text.tokenizer import Tokenizers
from hubnmt.types import PairScore, SentencePair
from hubnmt.ui.gradio.page import build_demo, launch_options
from hubnmt.ui.services.translate import Handlers

N_LAYERS, N_HEADS = 2, 3


def _rows(*shape: int) -> torch.Tensor:
    weights = torch.rand(shape, generator=torch.Generator().manual_seed(0))
    return weights / weights.sum(-1, keepdim=True)


def _tokens(text: str) -> tuple[str, ...]:
    """Cut off the last letter of each word, as a vocabulary might."""
    pieces = [piece for word in text.split() for piece in (f" {word[:-1]}", word[-1])]
    return (*(piece for piece in pieces if piece.strip()), "<eos>")


def _place(tokens: tuple[str, ...]) -> TokenSpans:
    """Set tokens behind each other, the last of which says nothing."""

    def spans(lengths: list[int]) -> tuple[tuple[int, int], ...]:
        ends = [0, *itertools.accumulate(lengths), sum(lengths)]
        return tuple(itertools.pairwise(ends))

    said = tokens[:-1]
    chars, utf8 = spans([len(each) for each in said]), spans([len(each.encode()) for each in said])
    return TokenSpans("".join(said), tokens, chars, utf8)


def _merge_steps(word: str) -> list[list[bytes]]:
    """Join from the left, as a vocabulary might."""
    raw = word.encode()
    return [
        [raw[:n], *(raw[i : i + 1] for i in range(n, len(raw)))] for n in range(1, len(raw) + 1)
    ]


class FakeTranslator:
    """Turns text to capitals behind the prefix, n times worse for the n-th best."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.config = ModelConfig(
            src_lang="de",
            tgt_lang="en",
            src_vocab_size=300,
            tgt_vocab_size=300,
            d_model=12,
            n_heads=N_HEADS,
            d_ff=20,
            n_decoder_layers=N_LAYERS,
            alignment_head=(1, 2),
        )
        self.decoding = DecodingConfig(beam_size=4)
        self.card = ""
        self.engine: Any = None
        tokenizer: Any = SimpleNamespace(
            encode=_tokens,
            piece_bytes=str.encode,
            pre_tokens=str.split,
            merge_steps=_merge_steps,
            has_placeholders=False,
            vocab_size=300,
        )
        tokenizer.with_spans = lambda _: tokenizer
        self.tokenizers = Tokenizers(tokenizer, tokenizer)
        self.asked: dict[str, Any] = {}

    def translate(
        self,
        text: Any,
        *,
        decoding: DecodingConfig | None = None,
        prefix: str = "",
        guard: bool = True,
        **options: Any,
    ) -> Any:
        if not isinstance(text, str):
            return [self.translate(each, decoding=decoding, prefix=prefix) for each in text]
        decoding = (decoding or self.decoding).with_options(**options)
        self.asked = dict(decoding.to_dict().items() - self.decoding.to_dict().items())
        self.asked |= {"prefix": prefix} if prefix else {}
        candidates = [
            SimpleNamespace(
                text=prefix + text.upper() + "!" * i,
                score=-0.5 - i,
                tgt_ids=((7, 8 + i),),
                token_probability=0.8 / (1 + i),
                tgt_log_probs=(),
            )
            for i in range(decoding.n_best)
        ]
        return SimpleNamespace(
            src=text,
            text=candidates[0].text,
            score=candidates[0].score,
            token_probability=0.8,
            n_best=tuple(candidates),
            src_tokens=(" a", "b", "<eos>"),
            tgt_tokens=(" A", "B", "<eos>"),
            tgt_log_probs=(-0.1, -0.2, -0.3),
            sentences=(SentencePair((0, len(text)), (0, len(candidates[0].text))),),
            to_check=(),
            warnings=("<b>cut</b>",) if "long" in text else (),
            detected_language="",
        )

    def stream(
        self, text: str, *, n_together: int, **options: Any
    ) -> Generator[str, None, SimpleNamespace]:
        translation = self.translate(text, **options)
        self.n_together = n_together
        words = translation.text.split(" ")
        for n in range(1, len(words) + 1):
            yield " ".join(words[:n])
        return translation

    def score(self, src: str, tgt: str) -> PairScore:
        tokens = _tokens(tgt)
        log_probs = (-0.5,) * len(tokens)
        return PairScore(
            log_prob=sum(log_probs), perplexity=1.65, tgt_tokens=tokens, tgt_log_probs=log_probs
        )

    def attend(self, src: str, tgt: Any = None, *, split: bool = True) -> Attention:
        src_tokens = _tokens(src)
        tgt_tokens = _tokens(str(getattr(tgt, "text", tgt) or src.upper()))
        S, T = len(src_tokens), len(tgt_tokens)
        return Attention(
            src=_place(src_tokens),
            tgt=_place(tgt_tokens),
            cross=_rows(N_LAYERS, N_HEADS, T, S),
            encoder_self=_rows(1, N_HEADS, S, S),
            decoder_self=_rows(N_LAYERS, N_HEADS, T, T),
            tgt_log_probs=tuple(-0.25 * i for i in range(T)),
        )


@contextlib.contextmanager
def serving(handlers: Handlers, *, has_mcp: bool = False, **more: Any) -> Iterator[str]:
    """Serve the page, with more options of `launch` if need be; gives its address."""
    # Left to choose, Gradio tries ports in order and leaks a socket for each that is taken.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    demo = build_demo(handlers)
    options = launch_options(handlers, has_mcp=has_mcp) | more
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True, server_port=port, **options)
    try:
        yield url
    finally:
        demo.close()
