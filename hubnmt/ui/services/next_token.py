"""The most probable next tokens at one position of a translation, before and after filtering."""

from typing import Any

from torch import Tensor

from hubnmt.attention.replay import next_log_probs, readable_pieces
from hubnmt.decoding.scoring import warp_for_sampling
from hubnmt.errors import InputError
from hubnmt.translator import Translator
from hubnmt.ui.services.decoding_controls import whole
from hubnmt.ui.services.subject import Subject, read_index
from hubnmt.ui.services.turns import model_turn

N_TOKENS = 10
"""Number of next tokens shown."""

MAX_POSITIONS = 48
"""Tokens of the translation that can be selected: more do not fit a screen."""


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


DEFAULTS: dict[str, float] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0}
"""Options that change nothing."""


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
