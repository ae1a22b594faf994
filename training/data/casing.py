"""Some training pairs as people type them: without the last mark, without capitals.

Takes a clean pair, gives it back or changed. Must not know where pairs come from. Corpora end their
sentences well; who types "guten morgen" into a field does not, and a model that has met only "Guten
Morgen." goes on and on after a text that never ends. The choice hangs on the pair alone, so that it
is the same on every machine and in every start.
"""

import re
from typing import Final

from training.data.cleaning import fingerprint_pair

_FINAL_MARK: Final = re.compile(r"\s*[.!?…。！？।؟]+$")
_HALF: Final = 1 << 32


def as_typed(
    src: str, tgt: str, *, drop_final_mark: float, lowercase_src: float
) -> tuple[str, str]:
    """Return a pair as someone in a hurry might have typed it, or as it is.

    Args:
        src: tidy source.
        tgt: tidy target.
        drop_final_mark: share of pairs that lose the marks at the end of both sides; a pair in
            which one side has none, or has nothing else, stays.
        lowercase_src: share of pairs, chosen apart from the other, whose source is in small
            letters; the target keeps its capitals, for they are to be restored.
    """
    first, second = (part / _HALF for part in divmod(fingerprint_pair(src, tgt) % _HALF**2, _HALF))
    if first < drop_final_mark:
        bare = [_FINAL_MARK.sub("", side) for side in (src, tgt)]
        if all(bare) and bare[0] != src and bare[1] != tgt:
            src, tgt = bare
    return (src.lower() if second < lowercase_src else src), tgt
