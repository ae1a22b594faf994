"""Rendering of notices, model facts and timings as HTML, and packing of attention for the explorer.

Text that becomes HTML is escaped here; the explorer inserts its data with `textContent`.
"""

import base64
import html
import itertools
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from hubnmt.analysis.occlusion import Occlusion
from hubnmt.attention.maps import Attention
from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from hubnmt.text.graphemes import number_words
from hubnmt.text.languages import language_name
from hubnmt.ui.services.registry import ModelFacts

UNSURE = 0.5
"""Mean token probability below which a translation is marked; same value in alternatives.js."""

MAX_WEIGHTS = 2_000_000
"""Maximum number of attention weights sent to a browser: about 5 MB."""

FULL_SCALE = 65_535
"""Encoded value of weight 1: 16-bit integers take a third of the size of decimals."""


def explorer_figure(maps: Attention, left_out: Occlusion | None) -> dict[str, Any]:
    """Pack a sentence's attention for the explorer, by subwords, characters and words.

    Args:
        maps: attention over S source and T target tokens.
        left_out: occlusion analysis of the same pair, if available.
    """
    characters, words = maps.by_character(), maps.by_word()
    is_same = characters.src.tokens == maps.src.tokens and characters.tgt.tokens == maps.tgt.tokens
    later = maps.shifted(maps.alignment_shift)
    return {
        "units": {
            "pieces": _view(maps, later),
            "characters": None if is_same else _view(characters, later.by_character()),
            "words": _view(words, later.by_word()),
        },
        "alignment": maps.alignment_head and list(maps.alignment_head),
        "shift": maps.alignment_shift,
        "falls": _log_prob_drops(maps, left_out),
    }


def _view(maps: Attention, later: Attention) -> dict[str, Any]:
    """Pack one unit; `aligned` is the alignment head if it aligns with a shift of one step."""
    packed = {
        "cross": _pack(maps.cross),
        "encoder": _pack(maps.encoder_self),
        "decoder": _pack(maps.decoder_self),
    }
    if maps.alignment_head and maps.alignment_shift:
        layer, head = maps.alignment_head
        packed["aligned"] = _pack(later.cross[layer, head][None, None])
    return {
        "src": list(maps.src_tokens),
        "tgt": list(maps.tgt_tokens),
        "maps": packed,
    }


def _log_prob_drops(maps: Attention, left_out: Occlusion | None) -> list[list[float]] | None:
    """Sum log-probability drops per target word: (target words, source words)."""
    if left_out is None:
        return None
    _, sizes = maps.tgt.group(number_words)
    ends = list(itertools.accumulate(sizes))
    return [
        [round(sum(drops[end - size : end]), 3) for drops in left_out.falls]
        for end, size in zip(ends, sizes, strict=True)
    ]


def check_drawable(n_src_tokens: int, n_tgt_tokens: int, config: ModelConfig) -> None:
    """Refuse a sentence pair with too many attention weights before they are computed.

    Raises:
        InputError: with the size and the limit.
    """
    S, T = n_src_tokens, n_tgt_tokens
    encoder_weights = config.n_encoder_layers * config.n_heads * S * S
    n_weights = encoder_weights + config.n_decoder_layers * config.n_heads * (T * S + T * T)
    if n_weights > MAX_WEIGHTS:
        raise InputError(
            f"too long to display: {S} and {T} tokens have {n_weights:,} attention weights; the "
            f"limit is {MAX_WEIGHTS:,}; try a single sentence"
        )


def _pack(maps: ArrayLike) -> dict[str, Any]:
    """Encode (L, H, Q, K) weights as base64 of little-endian 16-bit integers."""
    weights = np.asarray(maps, dtype=np.float32)
    n_layers, n_heads, _, _ = weights.shape
    scaled = np.rint(weights.clip(0, 1) * FULL_SCALE).astype("<u2")
    packed = base64.b64encode(scaled.tobytes()).decode("ascii")
    return {"layers": n_layers, "heads": n_heads, "weights": packed}


def notice(messages: Iterable[str], kind: Literal["error", "warning"]) -> str:
    """Render messages as a notice; empty without messages."""
    lines = "".join(f"<p>{html.escape(sentence(message))}</p>" for message in messages)
    role = "alert" if kind == "error" else "status"
    return f'<div class="notice {kind}" role="{role}">{lines}</div>' if lines else ""


def sentence(message: str) -> str:
    """Capitalize a message and end it with a full stop.

    A first word that is not purely alphabetic, such as an option or file name, is left unchanged.
    """
    message = message.strip()
    end = "" if message.endswith((".", "!", "?")) else "."
    if message.partition(" ")[0].rstrip(",:;.").isalpha():
        message = message[:1].upper() + message[1:]
    return message + end


def model_line(facts: ModelFacts) -> str:
    """Render a model's languages, size and scores on one line."""
    pair = f"{language_name(facts.src_lang)} → {language_name(facts.tgt_lang)}"
    parts = [f"<b>{html.escape(pair)}</b>", f"{short_count(facts.n_parameters)} parameters"]
    if facts.size_mb is not None:
        parts.append(
            f"{facts.size_mb:.1f} MB" if facts.size_mb < 100 else f"{facts.size_mb:.0f} MB"
        )
    for score in facts.scores[:2]:
        measured = f"evaluated on {score.dataset}" if score.dataset else "from the model card"
        parts.append(
            f'<span title="{html.escape(measured)}">{score.metric} <b>{score.value:.1f}</b></span>'
        )
    return f'<div class="facts">{fact_row(parts)}</div>'


def timing_line(
    *, seconds: float, n_tokens: int, token_probability: float, load_seconds: float
) -> str:
    """Render duration, throughput and mean token probability of a translation."""
    parts = [f"<b>{short_duration(seconds)}</b>", f"{n_tokens} token{'' if n_tokens == 1 else 's'}"]
    if seconds > 0:
        parts.append(f"{n_tokens / seconds:.0f} tokens/s")
    explained = (
        "mean token probability: the model's confidence, not the accuracy of the translation"
    )
    unsure = ' class="unsure"' if token_probability < UNSURE else ""
    sure = f"{token_probability:.0%}" if token_probability >= 0.005 else "&lt;1%"
    parts.append(f'<span title="{explained}"{unsure}>token probability {sure}</span>')
    if load_seconds > 0:
        parts.append(f"model loaded in {short_duration(load_seconds)}")
    return f'<div class="facts" role="status">{fact_row(parts)}</div>'


def fact_row(parts: Iterable[str]) -> str:
    """Render facts in a row; the style sheet adds separators."""
    return f"<div>{''.join(f'<span>{part}</span>' for part in parts)}</div>"


def short_count(number: int) -> str:
    """Abbreviate a count: 950, 12 k, 2.6 M."""
    for size, letter in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            digits = 1 if number < 10 * size else 0
            return f"{number / size:.{digits}f} {letter}"
    return str(number)


def short_duration(seconds: float) -> str:
    """Format a duration: 950 ms, 1.2 s, 75 s."""
    return (
        f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.{1 if seconds < 10 else 0}f} s"
    )
