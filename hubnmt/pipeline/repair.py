"""The second search, for translations that are degenerate or lost a name.

A small model often changes a piece of a rare name ("Ancelotti" becomes "Oncelotti"): the word is
replaced by the name. A sentence that lost a name is translated again with a placeholder for it.
Neither is done for a word that the model translates when it stands alone ("Turkish").
`tests/benchmarks/names.py` counts the names that are kept. The second search allows no repeated
n-grams, so that it mends degenerate output too, and is greedy if one hypothesis is wanted.
"""

import dataclasses
import math
import re
from collections.abc import Generator, Iterable, Sequence
from typing import Final

from hubnmt.config import DecodingConfig
from hubnmt.decoding.constraints import is_cut
from hubnmt.decoding.search import Hypothesis, make_hypothesis
from hubnmt.inference import Engine
from hubnmt.pipeline.checks import (
    COMPOUND,
    NOUNS_CAPITALISED,
    ChangedName,
    contains_word,
    find_changed_names,
    find_lost_names,
    main_script,
    whole_word,
)
from hubnmt.pipeline.segmentation import Sentence
from hubnmt.text.languages import main_tag
from hubnmt.text.protected_spans import PLACEHOLDERS
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

MIN_REPEATS: Final = 4
"""Consecutive repetitions that count as a loop ..."""
MIN_LOOP_TOKENS: Final = 8
"""... if they span at least this many tokens: "ha ha ha ha" may be intended."""
MAX_PERIOD: Final = 8
"""Longest repeated sequence considered, tokens."""
MIN_COPIED_WORDS: Final = 4
"""Shorter copies are names, numbers and cognates."""
MIN_SRC_TOKENS: Final = 12
"""Shorter sources may legitimately have a one-word translation, tokens."""
BROKEN: Final = "\N{REPLACEMENT CHARACTER}"
"""Decoded in place of bytes that are not valid UTF-8."""
SHORT_SHARE: Final = 0.3
"""Smallest plausible ratio of target to source tokens."""
SECOND_NGRAM_SIZE: Final = 3
"""Length of the n-grams that the second search does not repeat, tokens."""
FRAGMENT_LETTERS: Final = 3
"""First letters of a name that a fragment of it has."""
MIN_KNOWN_PROBABILITY: Final = 0.5
"""Mean token probability of the translation of a word alone that the model can translate ..."""
MIN_KNOWN_LETTERS: Final = 1.1
"""... and that probability times its letters per piece: what is spelled like a name has few."""
GREEDY: Final = DecodingConfig(beam_size=1)
"""Options for the translation of a word alone."""
MIN_GAIN: Final = 0.05
"""Mean token probability that a translation with placeholders for lost names must gain."""
MAX_RECOVERED: Final = 3.0
"""Log-probability that a placeholder for a lost word may recover, in nats."""


@dataclasses.dataclass(slots=True)
class _Suspect:
    """A sentence whose best hypothesis is degenerate, or may have changed or lost names."""

    sentence: Sentence
    signs: list[str]
    """Signs of degenerate output; if there are any, names are not looked at."""
    changed: list[ChangedName]
    lost: list[re.Match[str]]
    to_score: list[str] = dataclasses.field(default_factory=list)
    """Hypotheses with restored names."""


def repair_sentences(
    sentences: Sequence[Sentence],
    decoding: DecodingConfig,
    engine: Engine,
    tokenizers: Tokenizers,
    *,
    src_lang: str,
    max_batch_tokens: int,
) -> Generator[list[int], None, None]:
    """Translate degenerate sentences again, and restore names that were changed or lost.

    The sentences have hypotheses, found with the options of `decoding`, and no forced prefix.

    Yields:
        the steps of the searches.
    """
    # 1. Find the sentences that are degenerate or may have changed or lost names.
    capital_is_sign = main_tag(src_lang) not in NOUNS_CAPITALISED
    found = [_examine(each, decoding, capital_is_sign=capital_is_sign) for each in sentences]
    cases = [case for case in found if case.signs or case.changed or case.lost]
    if not cases:
        return
    # 2. A word that the model can translate is no name. Write changed names as the source does.
    words = {name for case in cases for name, _ in case.changed}
    words |= {match.group() for case in cases for match in case.lost}
    rows = {word: tokenizers.src.encode(word) for word in sorted(words)}
    alone = yield from engine.search([*rows.values()], GREEDY, max_batch_tokens=max_batch_tokens)
    known = _list_translatable(rows, alone, tokenizers.tgt)
    for case in cases:
        case.changed = [change for change in case.changed if change.name not in known]
        case.lost = [match for match in case.lost if match.group() not in known]
        case.to_score = _respell(case)
    # 3. Search again, with placeholders where names were lost, and keep what is better.
    attempts = [(case, attempt) for case in cases if (attempt := _make_attempt(case))]
    options = dataclasses.replace(
        decoding,
        sample=False,
        beam_size=decoding.n_best,
        no_repeat_ngram_size=decoding.no_repeat_ngram_size or SECOND_NGRAM_SIZE,
    )
    again = yield from engine.search(
        [attempt.part.ids for _, attempt in attempts],
        options,
        max_batch_tokens=max_batch_tokens,
    )
    for (case, attempt), hypotheses in zip(attempts, again, strict=True):
        attempt.hypotheses = hypotheses
        _take_if_better(case, attempt, decoding)
    # 4. Score the texts with restored names in one pass.
    respelled = [(case.sentence, text) for case in cases for text in case.to_score]
    pairs = [(each.part.ids, each.tokenizers.tgt.encode(text)) for each, text in respelled]
    for case in cases:
        if case.to_score:
            case.sentence.hypotheses = []
    for (sentence, _), (_, ids), log_probs in zip(
        respelled, pairs, engine.score(pairs), strict=True
    ):
        sentence.hypotheses.append(make_hypothesis(ids, log_probs, decoding.length_penalty))
    for case in cases:
        if case.to_score:
            case.sentence.hypotheses.sort(key=lambda each: -each.score)


def _examine(sentence: Sentence, decoding: DecodingConfig, *, capital_is_sign: bool) -> _Suspect:
    if signs := _find_signs(sentence, decoding):
        return _Suspect(sentence, signs, [], [])
    src, text, tokenizers = sentence.src, sentence.text, sentence.tokenizers
    changed = find_changed_names(src, text, tokenizers.tgt, capital_is_sign=capital_is_sign)
    lost = find_lost_names(src, text, tokenizers.src) if capital_is_sign else []
    # In another script the translation spells names itself.
    can_restore = changed or (_join_names(src, lost) and _can_gain(sentence, len(lost)))
    is_lost = lost and can_restore and main_script(src) == main_script(text)
    return _Suspect(sentence, [], changed, lost if is_lost else [])


def _find_signs(sentence: Sentence, decoding: DecodingConfig) -> list[str]:
    return find_degenerate(
        src=sentence.src,
        src_ids=sentence.part.ids,
        text=sentence.text,
        tgt_ids=sentence.hypotheses[0].ids,
        decoding=decoding,
    )


def find_degenerate(
    *,
    src: str,
    src_ids: Sequence[int],
    text: str,
    tgt_ids: Sequence[int],
    decoding: DecodingConfig = GREEDY,
) -> list[str]:
    """Return descriptions of the signs of degenerate output; an empty list if there are none.

    If the `max_new_tokens` of `decoding` cut the translation, a short one is expected.
    """
    words = src.casefold().split()
    is_at_limit = len(tgt_ids) >= decoding.max_tgt_tokens(len(src_ids))
    is_short = len(src_ids) >= MIN_SRC_TOKENS and len(tgt_ids) < SHORT_SHARE * len(src_ids)
    is_copy = len(words) >= MIN_COPIED_WORDS and words == text.casefold().split()
    signs = {
        "repeats itself": longest_loop(tgt_ids) and not longest_loop(src_ids),
        "copies the source": is_copy,
        "contains a part of a character": BROKEN in text and BROKEN not in src,
        "is far shorter than the source": is_short and not is_at_limit,
        "does not end": is_at_limit and decoding.max_new_tokens is None,
    }
    return [description for description, applies in signs.items() if applies]


def longest_loop(ids: Sequence[int]) -> int:
    """Return the length of the longest loop (repeated n-gram), tokens; 0 if there is none."""
    longest = 0
    for period in range(1, min(MAX_PERIOD, len(ids) // MIN_REPEATS) + 1):
        run = 0
        for position in range(period, len(ids)):
            run = run + 1 if ids[position] == ids[position - period] else 0
            if run + period >= MIN_REPEATS * period:
                longest = max(longest, run + period)
    return longest if longest >= MIN_LOOP_TOKENS else 0


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
        if len(words) > 1 or COMPOUND.search(src, 0, words[0].start())
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


def _list_translatable(
    words: Iterable[str], alone: Iterable[Sequence[Hypothesis]], tokenizer: Tokenizer
) -> set[str]:
    """Return the words that the model translates alone, neither copied nor spelled like a name."""
    found = set()
    for word, (best, *_) in zip(words, alone, strict=True):
        text, probability = tokenizer.decode(best.ids), best.token_probability
        letters = probability * len(text) / max(len(best.ids), 1)
        is_copy = text.casefold() == word.casefold()
        if not is_copy and probability >= MIN_KNOWN_PROBABILITY and letters >= MIN_KNOWN_LETTERS:
            found.add(word)
    return found


def _respell(case: _Suspect) -> list[str]:
    """Return the hypotheses with the changed names; those with other words are left out."""
    texts = [case.sentence.decode(hypothesis) for hypothesis in case.sentence.hypotheses]
    for name, word in case.changed:
        texts = [re.sub(whole_word(word), name, text) for text in texts]
    kept = [text for text in dict.fromkeys(texts) if all(name in text for name, _ in case.changed)]
    return kept if case.changed else []


def _make_attempt(case: _Suspect) -> Sentence | None:
    """Return a sentence to search again, with placeholders for its lost and changed names.

    Returns:
        None if nothing is lost, and no changed name left a fragment; if there are no placeholders
        for the names; or if a search is in vain.
    """
    sentence, src = case.sentence, case.sentence.src
    if case.signs:
        return dataclasses.replace(sentence)
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
        text = re.sub(whole_word(name), mark, text)
    protected = (*part.protected, *lost, *changed)
    return Sentence(
        part=part._replace(ids=unprotected.encode(text), protected=protected),
        tokenizers=sentence.tokenizers.with_spans(protected),
    )


def _has_fragment(case: _Suspect) -> bool:
    """Return whether a translation has a part of a changed name beside it: "Venka Venedinen"."""
    words = COMPOUND.findall(case.to_score[0] if case.to_score else "")
    return any(
        word[:FRAGMENT_LETTERS] == name[:FRAGMENT_LETTERS]
        and not contains_word(case.sentence.src, word)
        for name, _ in case.changed
        for word in words
    )


def _take_if_better(case: _Suspect, attempt: Sentence, decoding: DecodingConfig) -> None:
    """Take over the second translation of a case if it is better and keeps all spans.

    A degenerate first one is replaced; otherwise the second gives the texts to be scored.
    """
    sentence, (second, *_) = case.sentence, attempt.hypotheses
    keeps_spans = attempt.tokenizers.keep_spans(attempt.part.ids, second.ids)
    if not case.signs:
        gain = second.token_probability - sentence.hypotheses[0].token_probability
        if keeps_spans and gain > MIN_GAIN:
            case.to_score = [attempt.decode(hypothesis) for hypothesis in attempt.hypotheses]
        return
    description = " and ".join(case.signs)
    sentence.warning = f"the translation {description}"
    if keeps_spans and len(_find_signs(attempt, decoding)) < len(case.signs):
        sentence.hypotheses, sentence.is_replaced = attempt.hypotheses, True
        sentence.is_cut = is_cut(second.ids, len(attempt.part.ids), decoding)
        sentence.warning = (
            f"the first translation {description}: translated again with other settings"
        )
