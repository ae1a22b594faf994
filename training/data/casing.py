"""Data augmentation with casual spelling: without final punctuation, in lower case.

Corpora consist of well-formed sentences, but users type "guten morgen"; a model trained on "Guten
Morgen." only may not stop after a text without final punctuation. The choice depends on the pair
alone, so it is reproducible.
"""

import re
from typing import Final

from training.data.cleaning import fingerprint_pair

FINAL_MARK: Final = re.compile(r"\s*[.!?…。！？।؟]+$")
_HALF: Final = 1 << 32


def as_typed(
    src: str, tgt: str, *, drop_final_mark: float, lowercase_src: float
) -> tuple[str, str]:
    """Return a pair in casual spelling, or unchanged.

    Args:
        src: normalised source.
        tgt: normalised target.
        drop_final_mark: share of pairs whose final punctuation is removed on both sides; pairs
            where one side has none, or nothing else, are unchanged.
        lowercase_src: share of pairs, chosen independently, whose source is lower-cased; the target
            keeps its case, so that the model learns to restore it.
    """
    first, second = (part / _HALF for part in divmod(fingerprint_pair(src, tgt) % _HALF**2, _HALF))
    if first < drop_final_mark:
        bare = [FINAL_MARK.sub("", side) for side in (src, tgt)]
        if all(bare) and bare[0] != src and bare[1] != tgt:
            src, tgt = bare
    return (src.lower() if second < lowercase_src else src), tgt
