"""Rank the most probable next tokens after a translation prefix and complete the text from each."""

import functools
import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from hubnmt.attention.replay import next_log_probs
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.decoding.constraints import ForcedPrefix, force_prefix, is_cut
from hubnmt.decoding.search import run_to_end
from hubnmt.errors import InputError
from hubnmt.inference import Engine
from hubnmt.model.transformer import Transformer
from hubnmt.pipeline.segmentation import Part, segment_text
from hubnmt.pipeline.targets import distribute_prefix, unprotect, unprotect_for_prefix
from hubnmt.text.sentences import Segment
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.types import Alternative

MAX_TOGETHER = 16
"""Alternatives completed in one batch."""

ScoreNext = Callable[[Sequence[int]], Tensor]
"""Map the target ids so far to the log-probabilities of the next token, (V,)."""


def find_alternatives(
    src: str,
    prefix: str | Sequence[int],
    k: int,
    decoding: DecodingConfig,
    engine: Engine,
    model: Transformer,
    *,
    tokenizers: Tokenizers,
    max_new_tokens: int | None = None,
) -> list[Alternative]:
    """Rank the k next tokens after a prefix by the model, and complete the text from each.

    The prefix is the translation so far, see `hubnmt.pipeline.targets` if it has several sentences;
    or the exact ids of the first sentence, without special tokens. `max_new_tokens` limits each
    completion.

    Returns:
        most probable first; fewer than k if the prefix allows fewer.

    Raises:
        InputError: if the source is empty.
    """
    # 1. Find the sentence that the prefix continues.
    given, open_prefix, part, later = _find_open(src, prefix, tokenizers, model.config)
    part, forced, text = _force(part, open_prefix, tokenizers)
    bound = Tokenizers(tokenizers.src, tokenizers.tgt.with_spans(part.protected))
    # 2. Rank the next tokens; a text may end where no protected span is missing.
    score_next = functools.partial(next_log_probs, model, part.ids, tokenizers=bound)
    open_text = open_prefix if isinstance(open_prefix, str) else ""  # ids have no open word
    may_end = tokenizers.keep_spans(part.ids, bound.tgt.encode(text))
    ranked = _rank(score_next, open_text, forced, k, bound.tgt, may_end=may_end)
    # 3. Complete the sentence from each, and translate those after it.
    most = decoding.max_tgt_tokens(len(part.ids))
    is_short = max_new_tokens is not None and max_new_tokens < most
    options = decoding.with_options(max_new_tokens=max_new_tokens) if is_short else decoding
    chosen = [token_id for _, token_id in ranked if token_id != bound.tgt.eos_id]
    completed = _complete(part, chosen, forced, options, engine, bound.tgt)
    ends = dict(zip(chosen, completed, strict=True)) | {bound.tgt.eos_id: (text.rstrip(), False)}
    after = part.space + _translate(later, decoding, engine, tokenizers) if later else ""
    return [
        Alternative(
            piece=bound.tgt.readable([token_id])[0],
            probability=math.exp(log_prob),
            text=given + ends[token_id][0] + after,
            is_whole=not (is_short and ends[token_id][1]),
        )
        for log_prob, token_id in ranked
    ]


def _find_open(
    src: str, prefix: str | Sequence[int], tokenizers: Tokenizers, config: ModelConfig
) -> tuple[str, str | Sequence[int], Part, list[Part]]:
    """Return the given sentences, the prefix of the next one, that sentence, and those after it."""
    segmented = segment_text(
        src,
        tokenizers.src,
        language=config.src_lang,
        max_src_tokens=config.max_src_tokens,
        separate_copied=not prefix,
    )
    if not segmented.translatable:
        raise InputError("the source is empty; give at least one word")
    given: list[Segment] = []
    if isinstance(prefix, str):
        given, prefix = distribute_prefix(prefix, segmented, language=config.tgt_lang)
    part, *later = segmented.translatable[len(given) :]
    return "".join(each.text + each.space for each in given), prefix, part, later


def _force(
    part: Part, prefix: str | Sequence[int], tokenizers: Tokenizers
) -> tuple[Part, ForcedPrefix, str]:
    """Return a part, the constraint that forces its prefix, and the prefix as text.

    The part has its protected spans as text if the prefix spells one, or ends within one.
    """
    if isinstance(prefix, str):
        part = unprotect_for_prefix(part, prefix, tokenizers)
        tokenizer = tokenizers.tgt.with_spans(part.protected)
        return part, force_prefix(prefix, tokenizer) or ForcedPrefix(tokenizer, [[]]), prefix
    tokenizer = tokenizers.tgt.with_spans(part.protected)
    text, count = tokenizer.decode_line(prefix), tokenizer.count_placeholders
    if part.protected and count(prefix) != count(tokenizer.encode(text)):
        part, prefix = unprotect(part, tokenizers.src), tokenizers.tgt.encode(text)
    return part, ForcedPrefix(tokenizers.tgt.with_spans(part.protected), [prefix]), text


def _complete(
    part: Part,
    chosen: Sequence[int],
    forced: ForcedPrefix,
    decoding: DecodingConfig,
    engine: Engine,
    tokenizer: Tokenizer,
) -> Iterator[tuple[str, bool]]:
    """Decode from the prefix plus each token; yield the text and whether it was cut."""
    (forced_ids,) = forced.forced_ids.tolist()
    n_together = 1 if forced.open_bytes else MAX_TOGETHER  # the remaining bytes differ by token
    for start in range(0, len(chosen), n_together):
        batch = chosen[start : start + n_together]
        remaining = forced.open_bytes[len(tokenizer.piece_bytes(batch[0])) :]
        prefix = ForcedPrefix(tokenizer, [[*forced_ids, token] for token in batch], remaining)
        one_batch = len(batch) * (len(part.ids) + 1) * decoding.beam_size
        rows = [part.ids] * len(batch)
        search = engine.search(rows, decoding, prefix=prefix, max_batch_tokens=one_batch)
        for best, *_ in run_to_end(search):
            is_long = is_cut(best.ids, len(part.ids), decoding, prefix)
            yield tokenizer.decode_line(best.ids), is_long


def _translate(
    parts: Sequence[Part],
    decoding: DecodingConfig,
    engine: Engine,
    tokenizers: Tokenizers,
) -> str:
    """Translate the sentences after the prefix, each followed by its white space."""
    found = run_to_end(engine.search([part.ids for part in parts], decoding))
    return "".join(
        tokenizers.tgt.with_spans(part.protected).decode_line(best.ids) + part.space
        for part, (best, *_) in zip(parts, found, strict=True)
    )


def _rank(
    score_next: ScoreNext,
    prefix: str,
    forced: ForcedPrefix,
    k: int,
    tokenizer: Tokenizer,
    *,
    may_end: bool,
) -> list[tuple[float, int]]:
    """Return the k best (log-probability, id) that match the prefix, including eos."""
    (forced_ids,) = forced.forced_ids.tolist()
    log_probs = score_next(forced_ids).clone()  # (V,); a tensor that may be changed
    if forced.max_tokens:
        tokens = torch.tensor([[forced_ids]], dtype=torch.int64)
        first = torch.tensor([0])  # the only sentence of the batch
        log_probs = forced(log_probs[None, None], tokens, first)[0, 0]  # (V,)
        log_probs[tokenizer.eos_id] = _end_log_prob(score_next, prefix, forced_ids, tokenizer)
    if not may_end:
        log_probs[tokenizer.eos_id] = -math.inf
    top = log_probs.topk(min(k, len(log_probs)))
    pairs = zip(top.values.tolist(), top.indices.tolist(), strict=True)
    shown = (pair for pair in pairs if pair[0] != -math.inf)
    # Placeholders that stand for nothing here have no text.
    return [
        (log_prob, token_id)
        for log_prob, token_id in shown
        if token_id == tokenizer.eos_id or tokenizer.piece_bytes(token_id)
    ]


def _end_log_prob(
    score_next: ScoreNext, prefix: str, forced_ids: list[int], tokenizer: Tokenizer
) -> float:
    """Return the log-probability of the open word followed by eos, after the complete words.

    The other candidates are scored from the same position, so eos must include the open word; a
    trailing space of the prefix is ignored, because the end of the text strips it.
    """
    total, so_far = 0.0, list(forced_ids)
    for token_id in [*tokenizer.encode(prefix.rstrip())[len(forced_ids) :], tokenizer.eos_id]:
        total += float(score_next(so_far)[token_id])
        so_far.append(token_id)
    return total
