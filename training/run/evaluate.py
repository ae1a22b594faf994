"""How good the weights are now: dev loss, BLEU and chrF on held-out pairs.

Takes a `Translator` and pairs, gives numbers and translations. Must not know the optimizer. The
model alone is measured: no guard, no splitting into sentences, nothing done about capitals; and
loss and scores are of the same tokens.
"""

import dataclasses
import logging
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from hubnmt.config import DecodingConfig
from hubnmt.decoding import run_search
from hubnmt.errors import InputError
from hubnmt.inference.engine import DEFAULT_BATCH_TOKENS, force_prefix
from hubnmt.pipeline.assemble import decode_line
from hubnmt.text.metrics import Scores, score_corpus
from hubnmt.text.tokenizer import single_spaced
from hubnmt.translator import Translator
from training.data.batching import Pair, collate, measure_lengths, plan_epoch
from training.optim.loss import projected_cross_entropy

log = logging.getLogger("training")


class HeldOutPairs(NamedTuple):
    """Pairs to measure on, with their tokens."""

    sources: list[str]
    references: list[str]
    ids: list[Pair]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """One look at the validation set."""

    dev_loss: float
    """Nats per non-pad target token, no label smoothing."""
    scores: Scores
    translations: tuple[str, ...]
    """Greedy, in the order of the pairs."""

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for the log."""
        return {
            "dev_loss": self.dev_loss,
            "bleu": self.scores.bleu,
            "bleu_signature": self.scores.bleu_signature,
            "chrf": self.scores.chrf,
            "chrf_signature": self.scores.chrf_signature,
        }


def encode_pairs(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> HeldOutPairs:
    """Tokenise pairs as training does, and leave out those that no memory would be enough for.

    These are many times longer than what the model was trained on; how many is said.

    Raises:
        InputError: if no pair is short enough.
    """
    limit = 4 * max(translator.config.max_src_tokens, 64)
    kept = HeldOutPairs([], [], [])
    encode = translator.src_tokenizer.encode, translator.tgt_tokenizer.encode
    for src, tgt in zip(sources, references, strict=True):
        ids = encode[0](single_spaced(src)), encode[1](single_spaced(tgt))
        if max(map(len, ids)) < limit:
            kept.sources.append(src)
            kept.references.append(tgt)
            kept.ids.append(ids)
    if not kept.ids:
        raise InputError(f"no pair to measure on is shorter than {limit} tokens")
    n_left = len(sources) - len(kept.ids)
    if n_left:
        log.warning(
            "%d of %d pairs to measure on have %d tokens or more and are left out",
            n_left,
            len(sources),
            limit,
        )
    return kept


def evaluate(translator: Translator, pairs: HeldOutPairs, *, batch_tokens: int) -> Evaluation:
    """Translate the sources greedily and score them; measure the loss of the references.

    Of the model's own decoding defaults only `max_new_tokens` counts: how to choose among
    translations is for the finished model, how long one must be able to grow is the language's.

    Args:
        translator: the weights to judge.
        pairs: to judge on.
        batch_tokens: padded tokens per batch.

    Raises:
        FloatingPointError: if the loss is no number any more.
    """
    dev_loss = measure_loss(translator, pairs, batch_tokens=batch_tokens)
    if not math.isfinite(dev_loss):
        raise FloatingPointError(f"validation loss {dev_loss}")
    greedy = DecodingConfig(beam_size=1, max_new_tokens=translator.decoding.max_new_tokens)
    texts = decode_pairs(translator, pairs, greedy, batch_tokens=batch_tokens)
    return Evaluation(
        dev_loss=dev_loss,
        scores=score_corpus(texts, pairs.references),
        translations=tuple(texts),
    )


def decode_pairs(
    translator: Translator,
    pairs: HeldOutPairs,
    decoding: DecodingConfig,
    *,
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
) -> list[str]:
    """Translate the sources as they are; one without a word stays empty."""
    tokenizer = translator.tgt_tokenizer
    rows = [src for src, _ in pairs.ids if src]
    prefix = force_prefix(decoding.prefix, tokenizer)
    search = translator.engine.search(rows, decoding, prefix=prefix, batch_tokens=batch_tokens)
    found = iter(run_search(search))
    return [decode_line(next(found)[0].ids, tokenizer) if src else "" for src, _ in pairs.ids]


@torch.inference_mode()
def measure_loss(translator: Translator, pairs: HeldOutPairs, *, batch_tokens: int) -> float:
    """Average the negative log-likelihood of the references, nats per non-pad token."""
    model = translator.model
    tokenizers = {
        "src_tokenizer": translator.src_tokenizer,
        "tgt_tokenizer": translator.tgt_tokenizer,
    }
    total = torch.zeros((), device=translator.device)
    n_tokens = 0
    for rows in plan_epoch(measure_lengths(pairs.ids), batch_tokens=batch_tokens, seed=0):
        batch = collate([pairs.ids[row] for row in rows], **tokenizers).to(translator.device)
        memory = model.encode(*batch.src)
        hidden = batch.pick(model.decode(batch.tgt_in, memory, batch.src.src_pad_mask))
        weight = model.output_proj.weight
        total += projected_cross_entropy(hidden, weight, batch.labels, label_smoothing=0.0).nll
        n_tokens += len(batch.labels)
    return float(total) / n_tokens
