"""Decoding algorithms: greedy search, beam search and sampling over any next-token `Step`.

Nothing here depends on the model; `inference.engine` adapts a Transformer to `Step`.
"""

from hubnmt.decoding.beam import BeamObserver, Continuation, beam_search
from hubnmt.decoding.constraints import (
    ForcedPrefix,
    RequiredTokens,
    combine,
    force_prefix,
    limit_new_tokens,
    repetition_control,
    require_placeholders,
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
    "combine",
    "force_prefix",
    "generate",
    "limit_new_tokens",
    "make_hypothesis",
    "normalize_length",
    "random_choice",
    "repetition_control",
    "require_placeholders",
    "run_search",
    "warp_for_sampling",
]
