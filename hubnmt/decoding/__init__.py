"""Decoding algorithms: greedy search, beam search and sampling over any next-token `Step`.

Nothing here depends on the model or on text; `inference.model_step` adapts a Transformer to `Step`.
"""

from hubnmt.decoding.beam import beam_search
from hubnmt.decoding.constraints import (
    ForcedPrefix,
    ForkedPrefix,
    RequiredTokens,
    combine,
    limit_new_tokens,
    repetition_control,
)
from hubnmt.decoding.greedy import greedy_search
from hubnmt.decoding.sampling import sample
from hubnmt.decoding.scoring import NOT_FINITE
from hubnmt.decoding.types import (
    BeamObserver,
    Constraint,
    Continuation,
    Hypothesis,
    Search,
    Step,
    run_search,
)

__all__ = [
    "NOT_FINITE",
    "BeamObserver",
    "Constraint",
    "Continuation",
    "ForcedPrefix",
    "ForkedPrefix",
    "Hypothesis",
    "RequiredTokens",
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
