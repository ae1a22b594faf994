"""The second search: once, and only for sentences that are degenerate or lost names.

Degenerate sentences are decoded again with other settings, see `fallback`; those that changed or
lost names with placeholders in their place, see `names`.
"""

from collections.abc import Generator, Sequence

from hubnmt.config import DecodingConfig
from hubnmt.pipeline.engine import Engine
from hubnmt.pipeline.fallback import find_problems, retry_options
from hubnmt.pipeline.names import gains, is_affordable, protect_names
from hubnmt.pipeline.sentence import Sentence, keeps_spans, rescore

Steps = Generator[list[int], None, None]


def search_again(
    sentences: Sequence[Sentence],
    decoding: DecodingConfig,
    engine: Engine,
    *,
    src_lang: str,
    max_batch_tokens: int,
) -> Steps:
    """Replace the hypotheses of sentences for which a second search finds better ones.

    Args:
        sentences: with their hypotheses; without a forced prefix.
        decoding: options of the first search.
        engine: searches and scores.
        src_lang: language of the source, BCP 47 tag.
        max_batch_tokens: see `Engine.search`.

    Yields:
        the steps of the searches.
    """
    judged = [
        (sentence, find_problems(sentence, sentence.hypotheses[0], decoding.max_new_tokens))
        for sentence in sentences
    ]
    degenerate = [(sentence, problems) for sentence, problems in judged if problems]
    yield from _retry(degenerate, decoding, engine, max_batch_tokens=max_batch_tokens)
    sound = [sentence for sentence, problems in judged if not problems]
    yield from _restore_names(
        sound, decoding, engine, src_lang=src_lang, max_batch_tokens=max_batch_tokens
    )


def _retry(
    degenerate: Sequence[tuple[Sentence, list[str]]],
    decoding: DecodingConfig,
    engine: Engine,
    *,
    max_batch_tokens: int,
) -> Steps:
    """Decode degenerate sentences with other settings, and keep results with fewer problems."""
    if not degenerate:
        return
    rows = [sentence.part.ids for sentence, _ in degenerate]
    options = retry_options(decoding)
    again = yield from engine.search(rows, options, max_batch_tokens=max_batch_tokens)
    for (sentence, problems), hypotheses in zip(degenerate, again, strict=True):
        description = " and ".join(problems)
        left = find_problems(sentence, hypotheses[0], decoding.max_new_tokens)
        sentence.is_replaced = len(left) < len(problems)
        if sentence.is_replaced:
            sentence.hypotheses = hypotheses
            sentence.warning = (
                f"the first translation {description}: translated again with other settings"
            )
        else:
            sentence.warning = f"the translation {description}"


def _restore_names(
    sentences: Sequence[Sentence],
    decoding: DecodingConfig,
    engine: Engine,
    *,
    src_lang: str,
    max_batch_tokens: int,
) -> Steps:
    """Decode sentences that changed or lost names with placeholders, and keep what is better."""
    # 1. Put placeholders in the place of the names.
    attempts = [
        (sentence, attempt)
        for sentence in sentences
        if (attempt := protect_names(sentence, src_lang=src_lang))
    ]
    if not attempts:
        return
    # 2. Search for the translations of these sentences.
    rows = [attempt.part.ids for _, attempt in attempts]
    again = yield from engine.search(rows, decoding, max_batch_tokens=max_batch_tokens)
    # 3. Leave what cannot be better, and spell the names of the rest.
    plausible = []
    for (sentence, attempt), hypotheses in zip(attempts, again, strict=True):
        is_surer = gains(sentence, hypotheses[0])
        is_kept = keeps_spans(attempt.part, hypotheses[0].ids, attempt.tokenizers)
        if is_kept and (attempt.n_changed or is_surer):
            texts = [attempt.tokenizers.tgt.decode(hypothesis.ids) for hypothesis in hypotheses]
            rows = [sentence.tokenizers.tgt.encode(text) for text in texts]
            plausible.append((sentence, attempt, is_surer, rows))
    # 4. Score the translations with the names as text, all in one pass, and keep the good ones.
    pairs = [(sentence.part.ids, ids) for sentence, _, _, rows in plausible for ids in rows]
    scored = iter(rescore(engine, pairs, length_penalty=decoding.length_penalty))
    for sentence, attempt, is_surer, rows in plausible:
        found = sorted((next(scored) for _ in rows), key=lambda hypothesis: -hypothesis.score)
        if is_surer or is_affordable(sentence, attempt, found[0]):
            sentence.hypotheses = found
