import base64
import itertools
from typing import Any

import numpy as np
import torch

from hubnmt.attention import explorer
from hubnmt.attention.maps import Attention, TokenSpans


def _rows(*shape: int) -> torch.Tensor:
    weights = torch.rand(shape, generator=torch.Generator().manual_seed(1))
    return weights / weights.sum(-1, keepdim=True)


def _spans(*tokens: str) -> TokenSpans:
    """Place tokens behind each other, `<eos>` last; a byte of a character has all of it."""
    ends = list(itertools.accumulate(len(token) for token in tokens))
    places = [*zip([0, *ends[:-1]], ends, strict=True), (ends[-1], ends[-1])]
    return TokenSpans("".join(tokens), (*tokens, "<eos>"), tuple(places), tuple(places))


def _maps(**changes: Any) -> Attention:
    """Three source and four target tokens; the target's first two are one word."""
    values = {
        "src": _spans("Ein", " Hund"),
        "tgt": _spans("d", "og", " runs"),
        "cross": _rows(4, 5, 4, 3),
        "encoder_self": _rows(1, 5, 3, 3),
        "decoder_self": _rows(4, 5, 4, 4),
        "tgt_log_probs": (-0.693147, -0.693147, -1e-9, -1000.0),
        "alignment_head": (3, 1),
    }
    return Attention(**(values | changes))


def _unpack(packed: dict[str, Any], *shape: int) -> np.ndarray:
    numbers = np.frombuffer(base64.b64decode(packed["weights"]), dtype="<u2")
    return numbers.reshape(packed["layers"], packed["heads"], *shape) / explorer.FULL_SCALE


def test_weights_arrive_as_they_were_sent():
    maps = _maps()
    figure = explorer.explorer_figure(maps, None)
    sent = figure["units"]["pieces"]["maps"]
    np.testing.assert_allclose(_unpack(sent["cross"], 4, 3), maps.cross, atol=1e-5)
    assert _unpack(sent["encoder"], 3, 3).shape == (1, 5, 3, 3)
    assert figure["alignment"] == [3, 1]
