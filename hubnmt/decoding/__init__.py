"""Search: from next-token log-probabilities to whole translations.

Takes a `Step` (what comes next, given what was said), gives `Hypothesis` lists, best first. Must
not know text. The searches know no model either: they run over any `Step`, a hand-written table in
the tests included; `model_step` alone binds a Transformer to that protocol.
"""

from hubnmt.decoding.beam import beam_search
from hubnmt.decoding.constraints import (
    ForcedPrefix,
    ForkedPrefix,
    combine,
    limit_new_tokens,
    repetition_control,
)
from hubnmt.decoding.greedy import greedy_search
from hubnmt.decoding.sampling import sample
from hubnmt.decoding.scoring import NOT_FINITE
from hubnmt.decoding.types import Constraint, Hypothesis, Search, Step, run_search

__all__ = [
    "NOT_FINITE",
    "Constraint",
    "ForcedPrefix",
    "ForkedPrefix",
    "Hypothesis",
    "Search",
    "Step",
    "beam_search",
    "combine",
    "greedy_search",
    "limit_new_tokens",
    "repetition_control",
    "run_search",
    "sample",
]
