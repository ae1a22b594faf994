"""Decoding of one sentence step by step: the next token, and the hypotheses of beam search."""

from typing import Any

from torch import Tensor

from hubnmt.attention.replay import next_log_probs, readable_pieces
from hubnmt.config import DecodingConfig
from hubnmt.decoding import Continuation
from hubnmt.decoding.scoring import normalize_length, warp_for_sampling
from hubnmt.errors import InputError
from hubnmt.inference.engine import TorchEngine
from hubnmt.pipeline.sentence import decode_line
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.translator import Translator
from hubnmt.ui.services import limits
from hubnmt.ui.services.decoding_controls import whole
from hubnmt.ui.services.subject import Subject, read_index
from hubnmt.ui.services.turns import model_turn

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

Path = tuple[int, ...]


def next_token(translator: Translator, subject: Subject, asked: Any) -> dict[str, Any]:
    """Return the most probable tokens at a position of the translation.

    Args:
        translator: the model.
        subject: the sentence and its translation.
        asked: `position`, `temperature`, `top_k` and `top_p`; each has a default.

    Returns:
        the choices, the tokens of the translation, and `best`: the most probable tokens with the
        model's probability and that after temperature, top-k and top-p; `rest` has both sums of the
        other tokens.

    Raises:
        InputError: if the position does not exist.
        ConfigError: if an option is not valid.
    """
    pair = subject.pair(translator)
    tokenizers = translator.tokenizers.with_spans(pair.protected)
    target = [*pair.tgt_ids, tokenizers.tgt.eos_id]
    asked = asked if isinstance(asked, dict) else {}
    position = _read_position(asked.get("position", 0), min(len(target), MAX_POSITIONS))
    options = {name: whole(asked.get(name, value)) for name, value in DEFAULTS.items()}
    translator.decoding.with_options(**options)  # validates them
    with model_turn():
        log_probs = next_log_probs(
            translator.model, pair.src_ids, pair.tgt_ids[:position], tokenizers
        )
    warped = warp_for_sampling(log_probs, **options)
    best = log_probs.topk(min(N_TOKENS, len(log_probs))).indices.tolist()
    return {
        "position": position,
        **options,
        "tokens": readable_pieces(target[:MAX_POSITIONS], tokenizers.tgt),
        "n_tokens": len(target),
        "chosen": target[position],
        "best": _rows(best, log_probs, warped, readable_pieces(best, tokenizers.tgt)),
        "rest": [_sum_of_others(each, best) for each in (log_probs, warped)],
        "n_kept": int(warped.isfinite().sum()),
        "vocab_size": len(log_probs),
    }


def _read_position(value: Any, n_positions: int) -> int:
    try:
        position = read_index(value)
    except ValueError:
        position = n_positions
    if position >= n_positions:
        raise InputError("this translation has no such position; select a token")
    return position


def _rows(
    ids: list[int], log_probs: Tensor, warped: Tensor, pieces: list[str]
) -> list[dict[str, Any]]:
    return [
        {"id": token_id, "piece": piece, "probability": before, "filtered": after}
        for token_id, piece, before, after in zip(
            ids, pieces, log_probs[ids].exp().tolist(), warped[ids].exp().tolist(), strict=True
        )
    ]


def _sum_of_others(log_probs: Tensor, ids: list[int]) -> float:
    others = log_probs.double().exp()
    others[ids] = 0
    return float(others.sum())


def beam_tree(translator: Translator, subject: Subject, beam_size: Any = None) -> dict[str, Any]:
    """Search again and return the continuations of every step.

    Args:
        translator: the model; its decoding options apply.
        subject: the sentence.
        beam_size: one of `BEAM_SIZES`; None for the model's own, or the nearest that is one.

    Returns:
        `steps`: for each step its continuations, best first, each with the index of its `parent` in
        the step before; `results`: the finished hypotheses, best first; `best`: the path of the
        best one as an index for each step.

    Raises:
        InputError: if the beam size is not valid.
    """
    decoding = _decoding(translator.decoding, beam_size)
    pair = subject.pair(translator)
    tokenizer = translator.tokenizers.tgt.with_spans(pair.protected)
    steps: list[list[Continuation]] = []
    limits.check_search(subject.src, decoding)
    with model_turn():
        found = _engine(translator).observe_beam(pair.src_ids, decoding, steps.append)
    drawn, paths = _draw(steps, decoding.length_penalty, tokenizer)
    best = _trace_back(drawn, paths, (*found[0].ids, tokenizer.eos_id)) if found else []
    return {
        "steps": drawn[:MAX_SHOWN_STEPS],
        "n_steps": len(drawn),
        "best": best[:MAX_SHOWN_STEPS],
        "beam_size": decoding.beam_size,
        "beam_sizes": list(BEAM_SIZES),
        "length_penalty": decoding.length_penalty,
        "results": [
            {"text": decode_line(each.ids, tokenizer), "score": each.score, "sum": each.log_prob}
            for each in found
        ],
    }


def _decoding(decoding: DecodingConfig, beam_size: Any) -> DecodingConfig:
    if beam_size is None:
        beam_size = min(max(decoding.beam_size, BEAM_SIZES[0]), BEAM_SIZES[-1])
    try:
        is_drawable = read_index(beam_size) in BEAM_SIZES
    except ValueError:
        is_drawable = False
    if not is_drawable:
        raise InputError(f"the beam size must be {BEAM_SIZES[0]} to {BEAM_SIZES[-1]}")
    n_best = min(decoding.n_best, beam_size)
    return decoding.with_options(beam_size=beam_size, n_best=n_best, sample=False)


def _engine(translator: Translator) -> TorchEngine:
    if isinstance(translator.engine, TorchEngine):
        return translator.engine
    return TorchEngine(translator.model, translator.tokenizers)


def _draw(
    steps: list[list[Continuation]], length_penalty: float, tokenizer: Tokenizer
) -> tuple[list[list[dict[str, Any]]], list[list[Path]]]:
    """Return the continuations of each step as plain values, and the tokens of each."""
    drawn, paths = list[list[dict[str, Any]]](), list[list[Path]]()
    beam: list[tuple[int | None, Path]] = [(None, ())]  # index in the step before, tokens
    for n_tokens, continuations in enumerate(steps, 1):
        pieces = readable_pieces([each.token for each in continuations], tokenizer)
        paths.append([(*beam[each.parent][1], each.token) for each in continuations])
        drawn.append(
            [
                {
                    "parent": beam[each.parent][0],
                    "piece": piece,
                    "log_prob": each.log_prob,
                    "sum": each.rank,
                    "score": normalize_length(each.rank, n_tokens, length_penalty),
                    "status": each.status,
                }
                for each, piece in zip(continuations, pieces, strict=True)
            ]
        )
        beam = [
            (index, paths[-1][index])
            for index, each in enumerate(continuations)
            if each.status == "kept"
        ]
    return drawn, paths


def _trace_back(
    drawn: list[list[dict[str, Any]]], paths: list[list[Path]], tokens: Path
) -> list[int]:
    """Return the index of each token of a finished hypothesis in its step."""
    index, best = paths[len(tokens) - 1].index(tokens), list[int]()
    for step in reversed(drawn[: len(tokens)]):
        best.append(index)
        index = step[index]["parent"]
    return best[::-1]
