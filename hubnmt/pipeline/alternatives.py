"""Rank the most probable next tokens after a translation prefix and complete the text from each."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from hubnmt.attention.replay import next_log_probs, readable_pieces
from hubnmt.config import DecodingConfig
from hubnmt.decoding import ForcedPrefix, run_search
from hubnmt.inference.engine import force_prefix, force_tokens, fork_prefix, is_cut, max_tgt_tokens
from hubnmt.model import Transformer
from hubnmt.pipeline.engine import Engine
from hubnmt.pipeline.prefix import DistributedPrefix, distribute_prefix
from hubnmt.pipeline.segmentation import Part, Plan
from hubnmt.pipeline.sentence import decode_line, keeps_spans, unprotect
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.types import Alternative

MAX_TOGETHER = 16
"""Alternatives completed in one batch."""

ScoreNext = Callable[[Sequence[int]], Tensor]
"""Map the target ids so far to the log-probabilities of the next token, (V,)."""


def find_alternatives(
    plan: Plan,
    prefix: str | Sequence[int],
    k: int,
    decoding: DecodingConfig,
    engine: Engine,
    model: Transformer,
    *,
    tokenizers: Tokenizers,
    max_new_tokens: int | None = None,
) -> list[Alternative]:
    """Rank the next tokens after a prefix and complete the text from each.

    Args:
        plan: segmented source; not empty.
        prefix: the translation so far, see `hubnmt.pipeline.prefix` if it has several sentences; or
            the exact ids of the first sentence, without special tokens.
        k: number of alternatives.
        decoding: options for completing the texts.
        engine: completes the texts.
        model: scores the next token.
        tokenizers: of the model.
        max_new_tokens: length limit of each completion, tokens.

    Returns:
        most probable first; fewer than k if the prefix allows fewer.
    """
    # 1. Find the sentence that the prefix continues, and translate those after it.
    distributed = DistributedPrefix()
    if isinstance(prefix, str):
        distributed = distribute_prefix(prefix, plan, language=model.config.tgt_lang)
        prefix = distributed.open
    part, *later = plan.translatable[len(distributed.complete) :]
    before = "".join(text + space for text, space in distributed.complete)
    after = ""
    if later:
        after = part.space + _translate(later, decoding, engine, tokenizers)
    # 2. Rank and complete; with the spans as text if the best completion lost one.
    explorer = _Explorer(k, decoding, max_new_tokens, engine, model, tokenizers)
    found, is_kept = explorer.explore(part, prefix)
    if not is_kept:
        if not isinstance(prefix, str):  # spelled without placeholders
            text = decode_line(prefix, tokenizers.tgt.with_spans(part.protected))
            prefix = tokenizers.tgt.encode(text)
        found, _ = explorer.explore(unprotect(part, tokenizers.src), prefix)
    return [
        dataclasses.replace(alternative, text=before + alternative.text + after)
        for alternative in found
    ]


@dataclasses.dataclass(frozen=True, slots=True)
class _Explorer:
    k: int
    decoding: DecodingConfig
    max_new_tokens: int | None
    engine: Engine
    model: Transformer
    tokenizers: Tokenizers

    def explore(self, part: Part, prefix: str | Sequence[int]) -> tuple[list[Alternative], bool]:
        """Return the alternatives of a part, and whether the first keeps the protected spans."""
        tokenizer = self.tokenizers.tgt.with_spans(part.protected)
        if isinstance(prefix, str):
            forced, open_text, text = force_prefix(prefix, tokenizer), prefix, prefix
        else:  # a prefix of ids has no open word
            forced, open_text = force_tokens(prefix, tokenizer), ""
            text = decode_line(prefix, tokenizer)
        score_next = functools.partial(
            next_log_probs,
            self.model,
            part.ids,
            tokenizers=Tokenizers(self.tokenizers.src, tokenizer),
        )
        ranked = _rank(score_next, open_text, forced, self.k, tokenizer)
        # 1. Complete each text.
        decoding, limit = self.decoding, self.max_new_tokens
        is_short = limit is not None and limit < max_tgt_tokens(len(part.ids), decoding)
        if is_short:
            decoding = dataclasses.replace(decoding, max_new_tokens=limit)
        chosen = [token_id for _, token_id in ranked if token_id != tokenizer.eos_id]
        completed = self._complete(part, chosen, forced, decoding, tokenizer)
        ends = dict(zip(chosen, completed, strict=True))
        encoded = tokenizer.encode(text)
        ends[tokenizer.eos_id] = (encoded, text.rstrip(), False)
        # 2. Look for the spans.
        first_ids, _, is_first_cut = ends[ranked[0][1] if ranked else tokenizer.eos_id]
        is_kept = is_first_cut or keeps_spans(part, first_ids, self.tokenizers)
        if not isinstance(prefix, str):  # which may spell a span as text
            count = self.tokenizers.tgt.count_placeholders
            is_kept = is_kept and count(prefix) == count(encoded)
        found = [
            Alternative(
                piece=readable_pieces([token_id], tokenizer)[0],
                probability=math.exp(log_prob),
                text=ends[token_id][1],
                is_whole=not (is_short and ends[token_id][2]),
            )
            for log_prob, token_id in ranked
        ]
        return found, is_kept or not part.protected

    def _complete(
        self,
        part: Part,
        chosen: Sequence[int],
        forced: ForcedPrefix | None,
        decoding: DecodingConfig,
        tokenizer: Tokenizer,
    ) -> Iterator[tuple[Sequence[int], str, bool]]:
        """Decode from the prefix plus each token; yield ids, text and whether it was cut."""
        groups: list[tuple[Sequence[int], ForcedPrefix]]
        if forced is not None and forced.open_bytes:  # the remaining bytes differ by token
            groups = [([token_id], _choose(token_id, forced, tokenizer)) for token_id in chosen]
        else:
            forced_ids = () if forced is None else forced.forced_ids
            starts = range(0, len(chosen), MAX_TOGETHER)
            batches = [chosen[start : start + MAX_TOGETHER] for start in starts]
            groups = [(forks, fork_prefix(forced_ids, forks, tokenizer)) for forks in batches]
        for forks, prefix in groups:
            one_batch = len(forks) * (len(part.ids) + 1) * decoding.beam_size
            rows = [part.ids] * len(forks)
            search = self.engine.search(rows, decoding, prefix=prefix, max_batch_tokens=one_batch)
            for best, *_ in run_search(search):
                text = decode_line(best.ids, tokenizer)
                yield best.ids, text, is_cut(best.ids, len(part.ids), decoding, prefix)


def _translate(
    parts: Sequence[Part],
    decoding: DecodingConfig,
    engine: Engine,
    tokenizers: Tokenizers,
) -> str:
    """Translate the sentences after the prefix, each followed by its white space."""
    found = run_search(engine.search([part.ids for part in parts], decoding))
    return "".join(
        decode_line(best.ids, tokenizers.tgt.with_spans(part.protected)) + part.space
        for part, (best, *_) in zip(parts, found, strict=True)
    )


def _choose(token_id: int, forced: ForcedPrefix | None, tokenizer: Tokenizer) -> ForcedPrefix:
    ids, open_bytes = ((), b"") if forced is None else (forced.forced_ids, forced.open_bytes)
    remaining = open_bytes[len(tokenizer.piece_bytes(token_id)) :]
    return force_tokens([*ids, token_id], tokenizer, remaining)


def _rank(
    score_next: ScoreNext,
    prefix: str,
    forced: ForcedPrefix | None,
    k: int,
    tokenizer: Tokenizer,
) -> list[tuple[float, int]]:
    """Return the k best (log-probability, id) that match the prefix, including eos."""
    forced_ids = [] if forced is None else list(forced.forced_ids)
    log_probs = score_next(forced_ids)  # (V,)
    if forced is not None:
        tokens = torch.tensor([[forced_ids]], dtype=torch.int64)
        first = torch.tensor([0])  # the only sentence of the batch
        log_probs = forced(log_probs[None, None], tokens, first)[0, 0].clone()  # (V,)
        log_probs[tokenizer.eos_id] = _end_log_prob(score_next, prefix, forced_ids, tokenizer)
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
