"""Names that a translation changed or lost, and their restoration.

A small model often changes a piece of a rare name ("Ancelotti" becomes "Oncelotti"): the word is
replaced by the name. A sentence that lost a name is translated again with a placeholder for it.
Neither is done for a word that the model translates when it stands alone ("Turkish").
`tests/benchmarks/names.py` counts the names that are kept.
"""

import dataclasses
import difflib
import functools
import itertools
import math
import re
import unicodedata
from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple

from hubnmt.config import DecodingConfig
from hubnmt.decoding import Hypothesis
from hubnmt.pipeline.draft import Engine, Sentence, rescore
from hubnmt.pipeline.targets import keeps_spans
from hubnmt.text.languages import main_tag
from hubnmt.text.protected_spans import PLACEHOLDERS
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

NOUNS_CAPITALISED: Final = ("de", "lb")
"""Languages in which a capital does not distinguish a name from another noun."""
MIN_LETTERS: Final = 4
"""Shorter words are often titles, which are translated."""
MIN_RARE_PIECES: Final = 2
"""Pieces of a name, and of the word that it became; common words have fewer."""
MIN_SIMILARITY: Final = 0.7
"""Ratio of `difflib.SequenceMatcher` of a name and what it became, without regard to case."""
FRAGMENT_LETTERS: Final = 3
"""First letters of a name that a fragment of it has."""
MIN_PIECES_UNMARKED: Final = 4
"""Pieces of both where a capital is no sign of a name."""
MIN_KNOWN_PROBABILITY: Final = 0.5
"""Mean token probability of the translation of a word alone that the model can translate ..."""
MIN_KNOWN_LETTERS: Final = 1.1
"""... and that probability times its letters per piece: what is spelled like a name has few."""
MIN_GAIN: Final = 0.05
"""Mean token probability that a translation with placeholders for lost names must gain."""
MAX_RECOVERED: Final = 3.0
"""Log-probability that a placeholder for a lost word may recover, in nats."""
_WORD: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
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
) -> list[ChangedName]:
    """Return words of the source that may be names, with the similar target word of each.

    Where a capital within a sentence is no sign of a name, both must be rarer. A word that is the
    name with or without accents is its form in the other language. The target tokenizer counts the
    pieces of a word.
    """
    src_words, tgt_words = (list(dict.fromkeys(_WORD.findall(text))) for text in (src, tgt))
    names = [
        word
        for word in src_words
        if len(word) >= MIN_LETTERS
        and word.istitle()
        and word.isalpha()  # "Pre-Olympics" is rather an adjective
        and not _contains(tgt, word)
    ]
    if not names:
        return []
    rare = [
        word
        for word in tgt_words
        if word[0].isupper()
        and word not in src_words
        and _n_pieces(word, tokenizer) >= MIN_RARE_PIECES
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
        is_form = name == _without_accents(word) or word == _without_accents(name)
        if (is_marked or n_pieces >= MIN_PIECES_UNMARKED) and not is_form:
            found.append(ChangedName(name, word))
    return found


def find_lost_names(src: str, tgt: str, tokenizer: Tokenizer) -> list[re.Match[str]]:
    """Return the rare capitalised words of the source that the translation lacks.

    A word that is similar to one of the translation is not lost but has another form there. The
    source tokenizer counts the pieces of a word.
    """
    forms = set(_WORD.findall(tgt)).difference(_WORD.findall(src))
    return [
        match
        for match in _NAME.finditer(src)
        if (word := match.group())[0].isupper()
        and word not in tgt
        and len(word) >= MIN_LETTERS
        and _n_pieces(word, tokenizer) >= MIN_RARE_PIECES
        and not any(_is_form(form, word) for form in forms)
    ]


def _contains(text: str, word: str) -> bool:
    return re.search(_whole(word), text, re.IGNORECASE) is not None


def _n_pieces(word: str, tokenizer: Tokenizer) -> int:
    return min(len(tokenizer.encode(form)) for form in (word, word.lower()))


def _similarity(name: str, word: str) -> float:
    """Return the similarity of two words, or 0 if it is below `MIN_SIMILARITY`."""
    name, word = (_without_accents(form).lower() for form in (name, word))
    if 2 * min(len(name), len(word)) < MIN_SIMILARITY * (len(name) + len(word)):
        return 0.0  # an upper bound
    similarity = difflib.SequenceMatcher(None, name, word).ratio()
    return similarity if similarity >= MIN_SIMILARITY else 0.0


def _is_form(word: str, name: str) -> bool:
    return not name.startswith(word) and _similarity(name, word) >= MIN_SIMILARITY


def _script(text: str) -> str:
    """Return the most frequent script of a text, as Unicode names its letters."""
    scripts = [unicodedata.name(char, "").split(" ")[0] for char in text if char.isalpha()]
    return max(set(scripts), key=scripts.count, default="")


@functools.lru_cache(maxsize=1024)
def _without_accents(word: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFD", word) if char.isalpha())


@dataclasses.dataclass(slots=True)
class _Case:
    """A sentence whose best hypothesis may have changed or lost names."""

    sentence: Sentence
    changed: list[ChangedName]
    lost: list[re.Match[str]]
    texts: list[str] = dataclasses.field(default_factory=list)
    """Restored hypotheses."""


def restore_names(
    sentences: Sequence[Sentence],
    decoding: DecodingConfig,
    engine: Engine,
    tokenizers: Tokenizers,
    *,
    src_lang: str,
    max_batch_tokens: int,
) -> Generator[list[int], None, None]:
    """Restore the names that the best hypotheses of sentences changed or lost.

    The sentences have hypotheses, found with the options of `decoding`, and no forced prefix.

    Yields:
        the steps of the searches for lost names.
    """
    # 1. Find what may be a changed or a lost name, except words that the model can translate.
    capital_is_sign = main_tag(src_lang) not in NOUNS_CAPITALISED
    found = [_suspect(sentence, capital_is_sign=capital_is_sign) for sentence in sentences]
    cases = [case for case in found if case.changed or case.lost]
    words = {name for case in cases for name, _ in case.changed}
    words |= {match.group() for case in cases for match in case.lost}
    known = yield from _find_translatable(sorted(words), engine, tokenizers)
    for case in cases:
        case.changed = [change for change in case.changed if change.name not in known]
        case.lost = [match for match in case.lost if match.group() not in known]
        # 2. Write changed names as the source does.
        case.texts = _respell(case)
    # 3. Search again with placeholders where names were lost, and keep what is surer.
    attempts = [(case, attempt) for case in cases if (attempt := _protect(case))]
    rows = [attempt.part.ids for _, attempt in attempts]
    greedy = dataclasses.replace(decoding, beam_size=decoding.n_best)
    again = yield from engine.search(
        rows, greedy, require_spans=False, max_batch_tokens=max_batch_tokens
    )
    for (case, attempt), hypotheses in zip(attempts, again, strict=True):
        gain = hypotheses[0].token_probability - case.sentence.hypotheses[0].token_probability
        if gain > MIN_GAIN and keeps_spans(attempt.part, hypotheses[0].ids, tokenizers):
            case.texts = [attempt.decode(hypothesis) for hypothesis in hypotheses]
    # 4. Score the new texts in one pass.
    for case, hypotheses in zip(cases, _score(cases, decoding, engine), strict=True):
        case.sentence.hypotheses = hypotheses or case.sentence.hypotheses


def _suspect(sentence: Sentence, *, capital_is_sign: bool) -> _Case:
    src, text, tokenizers = sentence.src, sentence.text, sentence.tokenizers
    changed = find_changed_names(src, text, tokenizers.tgt, capital_is_sign=capital_is_sign)
    lost = find_lost_names(src, text, tokenizers.src) if capital_is_sign else []
    # In another script the translation spells names itself.
    return _Case(sentence, changed, lost if lost and _script(src) == _script(text) else [])


def _score(
    cases: Sequence[_Case], decoding: DecodingConfig, engine: Engine
) -> Iterator[list[Hypothesis]]:
    """Yield the restored hypotheses of each case, best first."""
    pairs = [
        (case.sentence.part.ids, case.sentence.tokenizers.tgt.encode(text))
        for case in cases
        for text in case.texts
    ]
    scored = iter(rescore(engine, pairs, length_penalty=decoding.length_penalty))
    for case in cases:
        hypotheses = itertools.islice(scored, len(case.texts))
        yield sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


def _find_translatable(
    words: Sequence[str], engine: Engine, tokenizers: Tokenizers
) -> Generator[list[int], None, set[str]]:
    """Return the words that the model translates alone, neither copied nor spelled like a name."""
    rows = [tokenizers.src.encode(word) for word in words]
    alone = yield from engine.search(rows, DecodingConfig(beam_size=1))
    found = set()
    for word, (best, *_) in zip(words, alone, strict=True):
        text, probability = tokenizers.tgt.decode(best.ids), best.token_probability
        letters = probability * len(text) / max(len(best.ids), 1)
        is_copy = text.casefold() == word.casefold()
        if not is_copy and probability >= MIN_KNOWN_PROBABILITY and letters >= MIN_KNOWN_LETTERS:
            found.add(word)
    return found


def _respell(case: _Case) -> list[str]:
    """Return the hypotheses with the changed names; those with other words are left out."""
    texts = [case.sentence.decode(hypothesis) for hypothesis in case.sentence.hypotheses]
    for name, word in case.changed:
        texts = [re.sub(_whole(word), name, text) for text in texts]
    kept = [text for text in dict.fromkeys(texts) if all(name in text for name, _ in case.changed)]
    return kept if case.changed else []


def _whole(word: str) -> str:
    return rf"(?<![^\W\d_]){re.escape(word)}(?![^\W\d_])"


def _protect(case: _Case) -> Sentence | None:
    """Return a sentence with placeholders for its lost and changed names.

    Returns:
        None if none is lost and no changed one left a fragment, there are no placeholders for
        them, or a search is in vain.
    """
    sentence, src = case.sentence, case.sentence.src
    part, (src_tokenizer, tgt_tokenizer) = sentence.part, sentence.tokenizers
    lost = _join_names(src, case.lost)
    changed = [name for name, _ in case.changed if not any(name in words for words in lost)]
    marks = PLACEHOLDERS[len(part.protected) :]
    has_room = "" not in part.protected and len(lost) + len(changed) <= len(marks)
    can_protect = has_room and src_tokenizer.has_placeholders and tgt_tokenizer.has_placeholders
    n_words = len(case.lost) + len(case.changed)
    if not (can_protect and (lost or _has_fragment(case)) and _can_gain(sentence, n_words)):
        return None
    unprotected = src_tokenizer.with_spans(PLACEHOLDERS)  # each stands for itself
    text = unprotected.decode(part.ids)
    for name, mark in zip((*lost, *changed), marks, strict=False):
        text = re.sub(_whole(name), mark, text)
    protected = (*part.protected, *lost, *changed)
    return Sentence(
        part=part._replace(ids=unprotected.encode(text), protected=protected),
        tokenizers=sentence.tokenizers.with_spans(protected),
    )


def _has_fragment(case: _Case) -> bool:
    """Return whether a translation has a part of a changed name beside it: "Venka Venedinen"."""
    words = _WORD.findall(case.texts[0] if case.texts else "")
    return any(
        word[:FRAGMENT_LETTERS] == name[:FRAGMENT_LETTERS]
        and not _contains(case.sentence.src, word)
        for name, _ in case.changed
        for word in words
    )


def _join_names(src: str, lost: Sequence[re.Match[str]]) -> list[str]:
    """Return the sequences of lost words that stand beside each other."""
    sequences: list[list[re.Match[str]]] = []
    for match in lost:
        if sequences and src[sequences[-1][-1].end() : match.start()] == " ":
            sequences[-1].append(match)
        else:
            sequences.append([match])
    found = [
        src[words[0].start() : words[-1].end()]
        for words in sequences
        # The first word of a sentence has a capital in any case.
        if len(words) > 1 or _WORD.search(src, 0, words[0].start())
    ]
    return list(dict.fromkeys(found))


def _can_gain(sentence: Sentence, n_words: int) -> bool:
    """Return whether placeholders for words can make the best hypothesis surer by enough.

    A few words change the mean token probability of a long translation too little.
    """
    first = sentence.hypotheses[0]
    wanted = first.token_probability + MIN_GAIN
    best = first.log_prob + MAX_RECOVERED * n_words
    return wanted < 1 and (len(first.ids) + 1) * math.log(wanted) <= best
