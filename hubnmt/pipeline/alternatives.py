"""What else could come at one place of a translation, and where each choice would lead.

Takes a source and the translation so far, gives the most probable next pieces, each with the whole
text it leads to. Must not know which engine searches.
"""

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
from hubnmt.pipeline.assemble import decode_line
from hubnmt.pipeline.pipeline import Engine
from hubnmt.pipeline.prefix import BoundPrefix, bind_prefix
from hubnmt.pipeline.segmentation import Part, Plan
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.types import Alternative

MAX_TOGETHER = 16
"""Pieces whose texts are searched in one batch."""

Ask = Callable[[Sequence[int]], Tensor]
"""Target tokens so far to (V,) log-probabilities of the next one."""


def find_alternatives(
    plan: Plan,
    prefix: str | Sequence[int],
    k: int,
    decoding: DecodingConfig,
    engine: Engine,
    model: Transformer,
    *,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
    max_new_tokens: int | None = None,
) -> list[Alternative]:
    """Rank the next pieces behind a prefix, and complete the text from each.

    Args:
        plan: of the source; not empty.
        prefix: the translation so far, see `hubnmt.pipeline.prefix` if it has several sentences; or exactly
            these tokens of the first sentence, without special ones.
        k: how many.
        decoding: how to complete.
        engine: completes.
        model: is asked what comes next.
        src_tokenizer: of the source.
        tgt_tokenizer: of the target.
        max_new_tokens: where the texts are cut that would be longer.

    Returns:
        most probable first; fewer than k if the prefix leaves fewer choices.
    """
    bound, forced, open_text = _read_prefix(prefix, plan, model.config.tgt_lang, tgt_tokenizer)
    part, *later = plan.translatable[len(bound.said) :]
    before = "".join(text + space for text, space in bound.said)
    behind = part.space + _translate(later, decoding, engine, tgt_tokenizer) if later else ""
    ask = functools.partial(
        next_log_probs, model, part.ids, src_tokenizer=src_tokenizer, tgt_tokenizer=tgt_tokenizer
    )
    ranked = _rank(ask, open_text, forced, k, tgt_tokenizer)
    chosen = [token_id for _, token_id in ranked if token_id != tgt_tokenizer.eos_id]
    is_short = max_new_tokens is not None and max_new_tokens < max_tgt_tokens(
        len(part.ids), decoding
    )
    if is_short:
        decoding = dataclasses.replace(decoding, max_new_tokens=max_new_tokens)
    completed = _complete(part, chosen, forced, decoding, engine, tgt_tokenizer)
    ends = dict(zip(chosen, completed, strict=True))
    ends[tgt_tokenizer.eos_id] = (bound.open.rstrip(), False)
    return [
        Alternative(
            piece=readable_pieces([token_id], tgt_tokenizer)[0],
            probability=math.exp(log_prob),
            text=before + ends[token_id][0] + behind,
            is_whole=not (is_short and ends[token_id][1]),
        )
        for log_prob, token_id in ranked
    ]


def _complete(
    part: Part,
    chosen: Sequence[int],
    forced: ForcedPrefix | None,
    decoding: DecodingConfig,
    engine: Engine,
    tokenizer: Tokenizer,
) -> Iterator[tuple[str, bool]]:
    """Search on from the prefix and each of these pieces; yield the texts, and which were cut."""
    groups: list[tuple[Sequence[int], ForcedPrefix]]
    if forced is not None and forced.open_bytes:  # each piece leaves another end of the word owed
        groups = [([token_id], _choose(token_id, forced, tokenizer)) for token_id in chosen]
    else:
        said = () if forced is None else forced.forced_ids
        starts = range(0, len(chosen), MAX_TOGETHER)
        together = [chosen[start : start + MAX_TOGETHER] for start in starts]
        groups = [(forks, fork_prefix(said, forks, tokenizer)) for forks in together]
    for forks, prefix in groups:
        one_batch = len(forks) * (len(part.ids) + 1) * decoding.beam_size
        rows = [part.ids] * len(forks)
        search = engine.search(rows, decoding, prefix=prefix, batch_tokens=one_batch)
        for best, *_ in run_search(search):
            text = decode_line(best.ids, tokenizer)
            yield text, is_cut(best.ids, len(part.ids), decoding, prefix)


def _read_prefix(
    prefix: str | Sequence[int], plan: Plan, language: str, tokenizer: Tokenizer
) -> tuple[BoundPrefix, ForcedPrefix | None, str]:
    """Tell what a prefix says in full, what it forces, and the text of which a word is open."""
    if isinstance(prefix, str):
        bound = bind_prefix(prefix, plan, language=language)
        return bound, force_prefix(bound.open, tokenizer), bound.open
    # Tokens leave no word open.
    bound = BoundPrefix(open=decode_line(prefix, tokenizer))
    return bound, force_tokens(prefix, tokenizer), ""


def _translate(
    parts: Sequence[Part], decoding: DecodingConfig, engine: Engine, tokenizer: Tokenizer
) -> str:
    """Translate the sentences that no prefix touches, each with its white space."""
    found = run_search(engine.search([part.ids for part in parts], decoding))
    texts = (decode_line(best.ids, tokenizer) for best, *_ in found)
    return "".join(text + part.space for text, part in zip(texts, parts, strict=True))


def _choose(token_id: int, forced: ForcedPrefix | None, tokenizer: Tokenizer) -> ForcedPrefix:
    """Force one piece more; of an open word, what the piece did not say is still owed."""
    said, owed = ((), b"") if forced is None else (forced.forced_ids, forced.open_bytes)
    return force_tokens([*said, token_id], tokenizer, owed[len(tokenizer.piece_bytes(token_id)) :])


def _rank(
    ask: Ask, prefix: str, forced: ForcedPrefix | None, k: int, tokenizer: Tokenizer
) -> list[tuple[float, int]]:
    """Give the k best (log-probability, id) that agree with the prefix, and its end."""
    said = [] if forced is None else list(forced.forced_ids)
    log_probs = ask(said)  # (V,)
    if forced is not None:
        tokens = torch.tensor([[said]], dtype=torch.int64)
        log_probs = forced(log_probs[None, None], tokens)[0, 0].clone()  # (V,), open to a change
        log_probs[tokenizer.eos_id] = _end_log_prob(ask, prefix, said, tokenizer)
    top = log_probs.topk(min(k, len(log_probs)))
    pairs = zip(top.values.tolist(), top.indices.tolist(), strict=True)
    return [pair for pair in pairs if pair[0] != -math.inf]


def _end_log_prob(ask: Ask, prefix: str, said: list[int], tokenizer: Tokenizer) -> float:
    """Log-probability that behind the whole words the open word is said, and then the end.

    The pieces beside it are counted from the same place, so the end has to pay for the open word; a
    space at the end of the prefix costs nothing, because an end takes it away.
    """
    total, so_far = 0.0, list(said)
    for token_id in [*tokenizer.encode(prefix.rstrip())[len(said) :], tokenizer.eos_id]:
        total += float(ask(so_far)[token_id])
        so_far.append(token_id)
    return total
