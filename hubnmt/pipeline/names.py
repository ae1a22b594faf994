"""Names that a translation changed or lost, and their restoration with placeholders.

A small model often changes a piece of a rare name ("Ancelotti" becomes "Oncelotti"). A sentence
with such a name is translated again with a placeholder in its place. `tests/benchmarks/names.py`
counts the names that are kept.
"""

import dataclasses
import difflib
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from hubnmt.decoding import Hypothesis
from hubnmt.pipeline.segmentation import Part
from hubnmt.pipeline.sentence import Sentence
from hubnmt.text.graphemes import script_of_letter
from hubnmt.text.languages import main_tag
from hubnmt.text.protected_spans import PLACEHOLDERS
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.types import mean_probability

NOUNS_CAPITALISED: Final = ("de", "lb")
"""Languages in which a capital does not distinguish a name from another noun."""
MIN_LETTERS: Final = 4
"""Shorter words are often titles, which are translated."""
MIN_RARE_PIECES: Final = 2
"""Pieces of a name in the source; common words have fewer."""
MIN_PIECES: Final = 3
"""Pieces of the word in the translation that a name became."""
MIN_SIMILARITY: Final = 0.6
"""Ratio of `difflib.SequenceMatcher` of a name and that word, without regard to case."""
MIN_PIECES_UNMARKED: Final = 4
"""Pieces of both where a capital is no sign of a name ..."""
MIN_SIMILARITY_UNMARKED: Final = 0.7
"""... and their similarity there."""
MAX_PROBABILITY: Final = 0.8
"""Mean token probability above which a word of the translation is kept."""
MAX_LOSS: Final = 8.0
"""Log-probability that the restoration of a changed name may cost, in nats."""
MIN_GAIN: Final = 0.1
"""Mean token probability that a translation with placeholders for lost names must gain."""
MAX_RECOVERED: Final = 6.0
"""Log-probability that a placeholder for a lost word may recover, in nats."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_NAME: Final = re.compile(r"(?<!['’\w])[^\W\d_]{2,}(?:-[^\W\d_]+)*(?!['’\w])")


class ChangedName(NamedTuple):
    """A word of the source that may be a name, and what it may have become."""

    name: str
    word: str


def find_changed_names(
    src: str,
    tgt: str,
    tokenizer: Tokenizer,
    *,
    capital_is_sign: bool,
    is_unsure: Callable[[str], bool],
) -> list[ChangedName]:
    """Return words of the source that may be names, with the similar target word of each.

    Where a capital is no sign of a name, both must be rarer and more similar. A word that differs
    only in accents is the name's form in the other language.

    Args:
        src: one sentence.
        tgt: its translation.
        tokenizer: target tokenizer; counts the pieces of a word.
        capital_is_sign: whether a capital within a sentence is a sign of a name.
        is_unsure: whether the model is unsure of a word of the translation.
    """
    src_words, tgt_words = (list(dict.fromkeys(_WORD.findall(text))) for text in (src, tgt))
    copied = {word.lower() for word in tgt_words}
    names = [
        word
        for word in src_words
        if len(word) >= MIN_LETTERS and word.istitle() and word.lower() not in copied
    ]
    if not names:
        return []
    rare = [
        word
        for word in tgt_words
        if word[0].isupper() and word not in src_words and _n_pieces(word, tokenizer) >= MIN_PIECES
    ]
    found = []
    for name in names:
        similarities = [_similarity(name, word) for word in rare]
        similarity = max(similarities, default=0.0)
        if similarity < MIN_SIMILARITY:
            continue
        word = rare[similarities.index(similarity)]
        is_marked = capital_is_sign and name != src_words[0]
        n_pieces = min(_n_pieces(name, tokenizer), _n_pieces(word, tokenizer))
        is_likely = is_marked or (
            n_pieces >= MIN_PIECES_UNMARKED and similarity >= MIN_SIMILARITY_UNMARKED
        )
        if is_likely and name != _without_accents(word) and is_unsure(word):
            found.append(ChangedName(name, word))
    return found


def find_lost_names(src: str, tgt: str, tokenizer: Tokenizer) -> list[str]:
    """Return sequences of rare capitalised words of the source that the translation lacks.

    A word that is similar to one of the translation is not lost but has another form there.

    Args:
        src: one sentence of a language that does not capitalise all nouns.
        tgt: its translation.
        tokenizer: source tokenizer; counts the pieces of a word.
    """
    forms = set(_WORD.findall(tgt)).difference(_WORD.findall(src))
    lost: list[list[re.Match[str]]] = []
    for match in _NAME.finditer(src):
        word = match.group()
        if (
            not word[0].isupper()
            or word in tgt
            or len(word) < MIN_LETTERS
            or _n_pieces(word, tokenizer) < MIN_RARE_PIECES
            or any(_is_form(form, word) for form in forms)
        ):
            continue
        if lost and src[lost[-1][-1].end() : match.start()] == " ":
            lost[-1].append(match)
        else:
            lost.append([match])
    found = [
        src[words[0].start() : words[-1].end()]
        for words in lost
        # The first word of a sentence has a capital in any case.
        if len(words) > 1 or _WORD.search(src, 0, words[0].start())
    ]
    return list(dict.fromkeys(found))


def _n_pieces(word: str, tokenizer: Tokenizer) -> int:
    return min(len(tokenizer.encode(form)) for form in (word, word.lower()))


def _similarity(name: str, word: str) -> float:
    name, word = (_without_accents(form).lower() for form in (name, word))
    return difflib.SequenceMatcher(None, name, word).ratio()


def _is_form(word: str, name: str) -> bool:
    return not name.startswith(word) and _similarity(name, word) >= MIN_SIMILARITY


def _script(text: str) -> str:
    scripts = Counter(script_of_letter(char) for char in text if char.isalpha())
    return max(scripts, key=scripts.__getitem__, default="")


def _without_accents(word: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFD", word) if char.isalpha())


def word_probability(word: str, hypothesis: Hypothesis, tokenizer: Tokenizer) -> float:
    """Return the mean token probability of a whole word at its first place; 0 if it has none."""
    text = tokenizer.decode(hypothesis.ids)
    match = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)
    if match is None:
        return 0.0
    start, end = (len(text[:place].encode()) for place in match.span())
    spans = zip(tokenizer.offsets(hypothesis.ids), hypothesis.token_log_probs, strict=False)
    return mean_probability(
        [log_prob for (first, last), log_prob in spans if first < end and last > start]
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Attempt:
    """A sentence with placeholders for names."""

    part: Part
    tokenizers: Tokenizers
    n_changed: int
    """Names that became another word; the others are lost."""


def protect_names(sentence: Sentence, *, src_lang: str) -> Attempt | None:
    """Return a sentence with placeholders for the names that its best hypothesis changed or lost.

    Returns:
        None if there are none, no placeholders for them, or if the translation is in another
        script, in which it spells names itself.
    """
    part, (src_tokenizer, tgt_tokenizer) = sentence.part, sentence.tokenizers
    if not (src_tokenizer.has_placeholders and tgt_tokenizer.has_placeholders):
        return None
    best, src, tgt = sentence.hypotheses[0], sentence.src, sentence.text
    if _script(src) != _script(tgt):
        return None
    capital_is_sign = main_tag(src_lang) not in NOUNS_CAPITALISED
    changed = find_changed_names(
        src,
        tgt,
        tgt_tokenizer,
        capital_is_sign=capital_is_sign,
        is_unsure=lambda word: word_probability(word, best, tgt_tokenizer) <= MAX_PROBABILITY,
    )
    lost = find_lost_names(src, tgt, src_tokenizer) if capital_is_sign else []
    if not (changed or can_gain(best, len(" ".join(lost).split()))):
        return None
    single = [name for name, _ in changed if not any(name in words.split() for words in lost)]
    names = [*lost, *single]
    protected = (*part.protected, *names)
    if not names or "" in part.protected or len(protected) > len(PLACEHOLDERS):
        return None
    unprotected = src_tokenizer.with_spans(PLACEHOLDERS)  # each stands for itself
    text = unprotected.decode(part.ids)
    for name, mark in zip(names, PLACEHOLDERS[len(part.protected) :], strict=False):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", mark, text)
    return Attempt(
        part._replace(ids=unprotected.encode(text), protected=protected),
        sentence.tokenizers.with_spans(protected),
        len(changed),
    )


def can_gain(first: Hypothesis, n_lost: int) -> bool:
    """Return whether placeholders for lost words can make a translation surer by enough.

    A few words change the mean token probability of a long translation too little, so that a second
    search is in vain.
    """
    log_probs = first.token_log_probs
    wanted = mean_probability(log_probs) + MIN_GAIN
    best = sum(log_probs) + MAX_RECOVERED * n_lost
    return wanted < 1 and len(log_probs) * math.log(wanted) <= best


def gains(sentence: Sentence, second: Hypothesis) -> bool:
    """Return whether a translation with placeholders is surer than the first one by enough.

    The model is surer of placeholders than of a correct translation, too.
    """
    first = sentence.hypotheses[0]
    before, after = (mean_probability(found.token_log_probs) for found in (first, second))
    return after > before + MIN_GAIN


def is_affordable(sentence: Sentence, attempt: Attempt, spelled: Hypothesis) -> bool:
    """Return whether names that were changed cost little enough as text."""
    loss = sentence.hypotheses[0].log_prob - spelled.log_prob
    return attempt.n_changed > 0 and loss <= MAX_LOSS * attempt.n_changed
