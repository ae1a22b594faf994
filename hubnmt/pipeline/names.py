"""Names that a translation changed or lost, and their restoration.

A small model often changes a piece of a rare name ("Ancelotti" becomes "Oncelotti"): the word is
replaced by the name. A sentence that lost a name is translated again with a placeholder for it.
`tests/benchmarks/names.py` counts the names that are kept.
"""

import difflib
import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import Final, NamedTuple

from hubnmt.config import DecodingConfig
from hubnmt.decoding import Hypothesis
from hubnmt.pipeline.engine import Engine
from hubnmt.pipeline.sentence import Sentence, keeps_spans, rescore
from hubnmt.text.graphemes import script_of_letter
from hubnmt.text.languages import main_tag
from hubnmt.text.protected_spans import PLACEHOLDERS
from hubnmt.text.tokenizer import Tokenizer
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
MAX_LOSS: Final = 3.0
"""Log-probability that the restoration of a changed name may cost, in nats.

The source's form in place of a right translation costs about 4: "Ministry" for "Ministère".
"""
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

    Where a capital within a sentence is no sign of a name, both must be rarer and more similar. A
    word that differs only in accents is the name's form in the other language.

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
    """Return the similarity of two words, or 0 if it is below `MIN_SIMILARITY`."""
    name, word = (_without_accents(form).lower() for form in (name, word))
    matcher = difflib.SequenceMatcher(None, name, word)
    if matcher.real_quick_ratio() < MIN_SIMILARITY or matcher.quick_ratio() < MIN_SIMILARITY:
        return 0.0  # upper bounds, which are found in a tenth of the time
    return matcher.ratio()


def _is_form(word: str, name: str) -> bool:
    return not name.startswith(word) and _similarity(name, word) >= MIN_SIMILARITY


def _script(text: str) -> str:
    scripts = Counter(script_of_letter(char) for char in text if char.isalpha())
    return max(scripts, key=scripts.__getitem__, default="")


@functools.lru_cache(maxsize=1024)
def _without_accents(word: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFD", word) if char.isalpha())


def restore_names(
    sentences: Sequence[Sentence],
    decoding: DecodingConfig,
    engine: Engine,
    *,
    src_lang: str,
    max_batch_tokens: int,
) -> Generator[list[int], None, None]:
    """Restore the names that the best hypotheses of sentences changed or lost.

    Args:
        sentences: with their hypotheses; without a forced prefix.
        decoding: options of the first search.
        engine: searches and scores.
        src_lang: language of the source, BCP 47 tag.
        max_batch_tokens: see `Engine.search`.

    Yields:
        the steps of the search for the sentences that lost names.
    """
    capital_is_sign = main_tag(src_lang) not in NOUNS_CAPITALISED
    score = functools.partial(rescore, engine, length_penalty=decoding.length_penalty)
    # 1. Write changed names as the source does, where that is not too improbable.
    changed = [
        (sentence, names, _respell(sentence, names))
        for sentence in sentences
        if (names := _find_changed(sentence, capital_is_sign=capital_is_sign))
    ]
    scored = iter(score([(each.part.ids, ids) for each, _, rows in changed for ids in rows]))
    left: dict[int, list[ChangedName]] = {}
    for sentence, names, rows in changed:
        found = [next(scored) for _ in rows]
        if found and _is_affordable(sentence, found[0], len(names)):
            below = [each for each in found[1:] if each.score <= found[0].score]
            sentence.hypotheses = [found[0], *sorted(below, key=lambda each: -each.score)]
        else:
            left[id(sentence)] = names
    # 2. Search again with placeholders for lost names and for those changed ones.
    attempts = [
        (sentence, attempt)
        for sentence in sentences
        if (attempt := _protect(sentence, left.get(id(sentence), []), with_lost=capital_is_sign))
    ]
    searched = [attempt.part.ids for _, attempt in attempts]
    again = yield from engine.search(searched, decoding, max_batch_tokens=max_batch_tokens)
    # 3. Leave what cannot be better, and spell the names of the rest.
    plausible = []
    for (sentence, attempt), hypotheses in zip(attempts, again, strict=True):
        first, second = sentence.hypotheses[0], hypotheses[0]
        # The model is surer of placeholders than of a correct translation, too.
        is_surer = second.token_probability > first.token_probability + MIN_GAIN
        is_kept = keeps_spans(attempt.part, second.ids, attempt.tokenizers)
        if is_kept and (is_surer or id(sentence) in left):
            texts = [attempt.decode(hypothesis) for hypothesis in hypotheses]
            rows = [sentence.tokenizers.tgt.encode(text) for text in texts]
            plausible.append((sentence, is_surer, rows))
    # 4. Score the translations with the names as text, all in one pass, and keep the good ones.
    scored = iter(score([(each.part.ids, ids) for each, _, rows in plausible for ids in rows]))
    for sentence, is_surer, rows in plausible:
        found = sorted((next(scored) for _ in rows), key=lambda each: -each.score)
        if is_surer or _is_affordable(sentence, found[0], len(left.get(id(sentence), []))):
            sentence.hypotheses = found


def _is_affordable(sentence: Sentence, restored: Hypothesis, n_names: int) -> bool:
    return sentence.hypotheses[0].log_prob - restored.log_prob <= MAX_LOSS * n_names


def _find_changed(sentence: Sentence, *, capital_is_sign: bool) -> list[ChangedName]:
    best, tokenizer = sentence.hypotheses[0], sentence.tokenizers.tgt
    return find_changed_names(
        sentence.src,
        sentence.text,
        tokenizer,
        capital_is_sign=capital_is_sign,
        is_unsure=lambda word: word_probability(word, best, tokenizer) <= MAX_PROBABILITY,
    )


def _respell(sentence: Sentence, names: Sequence[ChangedName]) -> list[list[int]]:
    """Return the ids of the hypotheses with the names; those with other words are left out."""
    tokenizer = sentence.tokenizers.tgt
    texts = [tokenizer.decode(hypothesis.ids) for hypothesis in sentence.hypotheses]
    for name, word in names:
        texts = [re.sub(_whole(word), name, text) for text in texts]
    kept = [text for text in dict.fromkeys(texts) if all(name in text for name, _ in names)]
    return [tokenizer.encode(text) for text in kept]


def _whole(word: str) -> str:
    return rf"(?<![^\W\d_]){re.escape(word)}(?![^\W\d_])"


def _protect(
    sentence: Sentence, changed: Sequence[ChangedName], *, with_lost: bool
) -> Sentence | None:
    """Return a sentence with placeholders for names that its best hypothesis changed or lost.

    Returns:
        None if there are none, no placeholders for them, or if the translation is in another
        script, in which it spells names itself.
    """
    part, (src_tokenizer, tgt_tokenizer) = sentence.part, sentence.tokenizers
    if not (src_tokenizer.has_placeholders and tgt_tokenizer.has_placeholders):
        return None
    src, tgt = sentence.src, sentence.text
    lost = find_lost_names(src, tgt, src_tokenizer) if with_lost else []
    if not (changed or can_gain(sentence.hypotheses[0], len(" ".join(lost).split()))):
        return None
    single = [name for name, _ in changed if not any(name in words.split() for words in lost)]
    names = [*lost, *single]
    protected = (*part.protected, *names)
    if not names or "" in part.protected or len(protected) > len(PLACEHOLDERS):
        return None
    if _script(src) != _script(tgt):
        return None
    unprotected = src_tokenizer.with_spans(PLACEHOLDERS)  # each stands for itself
    text = unprotected.decode(part.ids)
    for name, mark in zip(names, PLACEHOLDERS[len(part.protected) :], strict=False):
        text = re.sub(_whole(name), mark, text)
    return Sentence(
        part=part._replace(ids=unprotected.encode(text), protected=protected),
        tokenizers=sentence.tokenizers.with_spans(protected),
    )


def word_probability(word: str, hypothesis: Hypothesis, tokenizer: Tokenizer) -> float:
    """Return the mean token probability of a whole word at its first place; 0 if it has none."""
    text = tokenizer.decode(hypothesis.ids)
    match = re.search(_whole(word), text)
    if match is None:
        return 0.0
    start, end = (len(text[:place].encode()) for place in match.span())
    spans = zip(tokenizer.offsets(hypothesis.ids), hypothesis.token_log_probs, strict=False)
    return mean_probability(
        [log_prob for (first, last), log_prob in spans if first < end and last > start]
    )


def can_gain(first: Hypothesis, n_lost: int) -> bool:
    """Return whether placeholders for lost words can make a translation surer by enough.

    A few words change the mean token probability of a long translation too little, so that a second
    search is in vain.
    """
    wanted = first.token_probability + MIN_GAIN
    best = first.log_prob + MAX_RECOVERED * n_lost
    return wanted < 1 and (len(first.ids) + 1) * math.log(wanted) <= best
