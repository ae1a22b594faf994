"""Scoring of given targets by a teacher-forced pass, with the log-probabilities of a search."""

from collections.abc import Sequence

import torch

from hubnmt.model import Transformer
from hubnmt.model.batching import batch_sources, batch_targets
from hubnmt.text.tokenizer import Tokenizers

SCORE_BATCH_PAIRS = 32
"""Batch size for scoring; the logits of 32 long sentences stay below 1 GB."""

Pairs = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Source and target ids without special tokens."""


def score_targets(
    model: Transformer, tokenizers: Tokenizers, pairs: Pairs
) -> list[tuple[float, ...]]:
    """Score any number of pairs.

    Returns:
        log-probabilities of the target tokens and eos of each pair, in nats.
    """
    rows: list[tuple[float, ...]] = []
    for start in range(0, len(pairs), SCORE_BATCH_PAIRS):
        rows += _score_batch(model, tokenizers, pairs[start : start + SCORE_BATCH_PAIRS])
    return rows


@torch.inference_mode()
def _score_batch(
    model: Transformer, tokenizers: Tokenizers, pairs: Pairs
) -> list[tuple[float, ...]]:
    device = model.output_proj.weight.device
    batch = batch_sources(
        [src for src, _ in pairs], pad_id=tokenizers.src.pad_id, eos_id=tokenizers.src.eos_id
    )
    src_ids, src_pad_mask = batch.src_ids.to(device), batch.src_pad_mask.to(device)
    target = batch_targets(
        [tgt for _, tgt in pairs],
        pad_id=tokenizers.tgt.pad_id,
        bos_id=tokenizers.tgt.bos_id,
        eos_id=tokenizers.tgt.eos_id,
    )
    memory = model.encode(src_ids, src_pad_mask)
    hidden = model.decode(target.tgt_in.to(device), memory, src_pad_mask)  # (B, T, D)
    is_label = ~target.tgt_pad_mask  # (B, T)
    logits = model.project(hidden[is_label.to(device)]).float()  # (N, V)
    labels = target.tgt_out[is_label].to(device)  # (N,)
    flat = logits.log_softmax(-1).gather(1, labels[:, None])[:, 0].cpu()  # (N,)
    lengths = is_label.sum(1).tolist()
    return [tuple(row.tolist()) for row in torch.split(flat, lengths)]
