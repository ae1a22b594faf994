"""Decoding algorithms: greedy search, beam search and sampling over any next-token `Step`.

Nothing here depends on the model; `inference.engine` adapts a Transformer to `Step`.
"""

from hubnmt.decoding.beam import BeamObserver, Continuation, beam_search
from hubnmt.decoding.constraints import (
    ForcedPrefix,
    RequiredTokens,
    force_prefix,
    is_cut,
    make_constraint,
)
from hubnmt.decoding.sampling import generate, random_choice, warp_for_sampling
from hubnmt.decoding.search import (
    NOT_FINITE,
    Constraint,
    Hypothesis,
    Search,
    Step,
    make_hypothesis,
    normalize_length,
    run_search,
)

__all__ = [
    "NOT_FINITE",
    "BeamObserver",
    "Constraint",
    "Continuation",
    "ForcedPrefix",
    "Hypothesis",
    "RequiredTokens",
    "Search",
    "Step",
    "beam_search",
    "force_prefix",
    "generate",
    "is_cut",
    "make_constraint",
    "make_hypothesis",
    "normalize_length",
    "random_choice",
    "run_search",
    "warp_for_sampling",
]
