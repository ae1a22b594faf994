"""Decoding of one sentence step by step: the next token, and the hypotheses of beam search."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from hubnmt.attention.replay import next_log_probs
from hubnmt.decoding.beam import Continuation
from hubnmt.decoding.sampling import warp_for_sampling
from hubnmt.decoding.search import normalize_length
from hubnmt.errors import InputError
from hubnmt.inference.engine import TorchEngine
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.translator import Translator
from hubnmt.ui.services import limits
from hubnmt.ui.services.decoding_controls import whole
from hubnmt.ui.services.subject import Subject, is_index
from hubnmt.ui.services.turns import TURNS

N_TOKENS = 10
"""Number of next tokens shown."""

MAX_POSITIONS = 48
"""Tokens of the translation that can be selected: more do not fit a screen."""

DEFAULTS: dict[str, float] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
"""Options that change nothing."""

BEAM_SIZES = range(2, 9)
"""Beam sizes that can be drawn: twice as many hypotheses stand below each other."""

MAX_SHOWN_STEPS = 40
"""Steps of the search that are drawn."""


def next_token(translator: Translator, subject: Subject, asked: Any) -> dict[str, Any]:
    """Return the most probable tokens at a position of the translation.

    `asked` has `position`, `temperature`, `top_k` and `top_p`; each has a default.

    Returns:
        what was asked, the tokens of the translation, and `best`: the most probable tokens with the
        model's probability and that after temperature, top-k and top-p; `rest` has both sums of the
        other tokens.
    """
    pair = subject.pair(translator)
    tokenizers = translator.tokenizers.with_spans(pair.protected)
    target = [*pair.tgt_ids, tokenizers.tgt.eos_id]
    asked = asked if isinstance(asked, dict) else {}
    position = asked.get("position", 0)
    if not is_index(position, min(len(target), MAX_POSITIONS)):
        raise InputError("this translation has no such position; select a token")
    options = {name: whole(asked.get(name, value)) for name, value in DEFAULTS.items()}
    translator.decoding.with_options(**options)  # validates them
    with TURNS.turn():
        log_probs = next_log_probs(
            translator.model, pair.src_ids, pair.tgt_ids[:position], tokenizers
        )  # (V)
    filtered = warp_for_sampling(log_probs, **options)
    best = log_probs.topk(min(N_TOKENS, len(log_probs))).indices.tolist()
    before, after = log_probs[best].exp().tolist(), filtered[best].exp().tolist()
    rows = zip(best, tokenizers.tgt.readable(best), before, after, strict=True)
    names = ("id", "piece", "probability", "filtered")
    return {
        "position": position,
        **options,
        "tokens": tokenizers.tgt.readable(target[:MAX_POSITIONS]),
        "n_tokens": len(target),
        "chosen": target[position],
        "best": [dict(zip(names, row, strict=True)) for row in rows],
        "rest": [_sum_of_others(log_probs, best), _sum_of_others(filtered, best)],
        "n_kept": int(filtered.isfinite().sum()),
        "vocab_size": len(log_probs),
    }


def _sum_of_others(log_probs: Tensor, ids: list[int]) -> float:
    others = log_probs.double().exp()
    others[ids] = 0
    return float(others.sum())


def beam_tree(translator: Translator, subject: Subject, beam_size: Any = None) -> dict[str, Any]:
    """Search again with the model's options and return the continuations of every step.

    `beam_size` is one of `BEAM_SIZES`; None for the model's own, or the nearest that is one.

    Returns:
        `steps`: for each step its continuations, best first, each with the index of its `parent` in
        the step before; `results`: the finished hypotheses, best first; `best`: the path of the
        best one as an index for each step.
    """
    decoding = translator.decoding
    if beam_size is None:
        beam_size = min(max(decoding.beam_size, BEAM_SIZES[0]), BEAM_SIZES[-1])
    if not is_index(beam_size, BEAM_SIZES.stop) or beam_size not in BEAM_SIZES:
        raise InputError(f"the beam size must be {BEAM_SIZES[0]} to {BEAM_SIZES[-1]}")
    n_best = min(decoding.n_best, beam_size)
    decoding = decoding.with_options(beam_size=beam_size, n_best=n_best, sample=False)
    limits.check_search(subject.src, decoding)
    pair = subject.pair(translator)
    tokenizer = translator.tokenizers.tgt.with_spans(pair.protected)
    engine = translator.engine
    if not isinstance(engine, TorchEngine):
        engine = TorchEngine(translator.model, translator.tokenizers)
    observed: list[list[Continuation]] = []
    with TURNS.turn():
        found = engine.observe_beam(pair.src_ids, decoding, observed.append)
    steps = _link_steps(observed, decoding.length_penalty, tokenizer)
    best = _find_path(observed, steps, (*found[0].ids, tokenizer.eos_id)) if found else []
    return {
        "steps": steps[:MAX_SHOWN_STEPS],
        "n_steps": len(steps),
        "best": best[:MAX_SHOWN_STEPS],
        "beam_size": decoding.beam_size,
        "beam_sizes": list(BEAM_SIZES),
        "length_penalty": decoding.length_penalty,
        "results": [
            {
                "text": tokenizer.decode_line(hypothesis.ids),
                "score": hypothesis.score,
                "sum": hypothesis.log_prob,
            }
            for hypothesis in found
        ],
    }


def _link_steps(
    observed: list[list[Continuation]], length_penalty: float, tokenizer: Tokenizer
) -> list[list[dict[str, Any]]]:
    """Return the continuations of each step as plain values.

    A search numbers the parents within the beam, the page within all continuations of the step.
    """
    steps: list[list[dict[str, Any]]] = []
    beam: list[int | None] = [None]
    for n_tokens, continuations in enumerate(observed, 1):
        pieces = tokenizer.readable([made.token for made in continuations])
        steps.append(
            [
                {
                    "parent": beam[made.parent],
                    "piece": piece,
                    "log_prob": made.log_prob,
                    "sum": made.total,
                    "score": normalize_length(made.total, n_tokens, length_penalty),
                    "status": made.status,
                }
                for made, piece in zip(continuations, pieces, strict=True)
            ]
        )
        beam = [index for index, made in enumerate(continuations) if made.status == "kept"]
    return steps


def _find_path(
    observed: list[list[Continuation]], steps: list[list[dict[str, Any]]], tokens: Sequence[int]
) -> list[int]:
    """Return the index of each token of a finished hypothesis in its step."""
    path: list[int] = []
    for token, continuations, step in zip(tokens, observed, steps, strict=False):
        nodes = [
            (node["parent"], made.token) for node, made in zip(step, continuations, strict=True)
        ]
        path.append(nodes.index((path[-1] if path else None, token)))
    return path
