"""The attention explorer, which `hubnmt/ui/assets/explorer.js` draws, and its data."""

import base64
import html
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hubnmt.attention.maps import Attention
from hubnmt.config import ModelConfig
from hubnmt.errors import InputError
from hubnmt.text.characters import number_words

MAX_WEIGHTS = 2_000_000
"""Maximum number of attention weights sent to a browser: about 5 MB."""

FULL_SCALE = 65_535
"""Encoded value of weight 1: 16-bit integers take a third of the size of decimals."""


def explorer_figure(maps: Attention, drops: Sequence[Sequence[float]] | None) -> dict[str, Any]:
    """Pack a sentence's attention for the explorer, by subwords, characters and words.

    The `drops` are those of occlusion analysis: for each source word, how much the log-probability
    of each target token drops without it, in nats.
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
        "drops": _log_prob_drops(maps, drops),
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


def _log_prob_drops(
    maps: Attention, drops: Sequence[Sequence[float]] | None
) -> list[list[float]] | None:
    """Sum log-probability drops per target word: (target words, source words)."""
    if drops is None:
        return None
    _, sizes = maps.tgt.group(number_words)
    ends = list(itertools.accumulate(sizes))
    return [
        [round(sum(row[end - size : end]), 3) for row in drops]
        for end, size in zip(ends, sizes, strict=True)
    ]


def check_drawable(n_src_tokens: int, n_tgt_tokens: int, config: ModelConfig) -> None:
    """Raise an `InputError` for too many attention weights, before they are computed."""
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


ASSETS = Path(__file__).parents[1] / "ui" / "assets"

DOCUMENT = """<!doctype html><meta charset="utf-8"><style>{css}
body {{ margin: 0; font-family: system-ui, sans-serif; }}</style>
<div id="explorer">{template}</div>
<script>((element, props, trigger, watch) => {{{script}
}})(document.getElementById("explorer"), {{ value: {figure} }}, () => {{}}, () => {{}});</script>"""
"""The names are those that `gr.HTML` gives to scripts."""

FIT = "this.style.height = `${this.contentDocument.documentElement.scrollHeight + 8}px`"


def explorer_html(maps: Attention) -> str:
    """Return the explorer for a notebook, or a sentence if there are too many weights.

    An `iframe`, as styles and scripts of the notebook must not mix with its own.
    """
    n_weights = sum(
        weights.numel() for weights in (maps.cross, maps.encoder_self, maps.decoder_self)
    )
    if n_weights > MAX_WEIGHTS:
        return (
            f"<p>{n_weights:,} attention weights are too many to display: limit {MAX_WEIGHTS:,}</p>"
        )
    figure = explorer_figure(maps, None) | {"languages": ["", ""]}
    scripts = [path.read_text("utf-8") for path in sorted(ASSETS.glob("explorer*.js"))]
    document = DOCUMENT.format(
        css=(ASSETS / "page.css").read_text("utf-8"),
        template=(ASSETS / "explorer.html").read_text("utf-8"),
        script="\n".join(scripts),
        figure=json.dumps(figure).replace("<", "\\u003c"),
    )
    return (
        f'<iframe title="Attention" srcdoc="{html.escape(document)}" onload="{FIT}" '
        'style="width: 100%; height: 640px; border: 0"></iframe>'
    )
