"""Teacher-forced passes over known tokens: attention maps and token log-probabilities.

A search stores no attention weights; its result is replayed here, with equal log-probabilities.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from hubnmt.attention.maps import Attention, TokenSpans
from hubnmt.model.batching import batch_sources, batch_targets
from hubnmt.model.transformer import Transformer
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.types import PairScore


def locate(ids: Sequence[int], tokenizer: Tokenizer) -> TokenSpans:
    """Return the span of each token of a sentence in its text, with `<eos>` last.

    Invalid UTF-8 bytes count as the U+FFFD that replaces them.
    """
    ids = [*ids, tokenizer.eos_id]
    raw, utf8 = tokenizer.decode_bytes(ids), tokenizer.offsets(ids)
    text = raw.decode("utf-8", errors="replace")

    def count_chars(n_bytes: int) -> int:
        """Count the characters that begin in the first bytes of the text."""
        return len(raw[:n_bytes].decode("utf-8", errors="replace"))

    chars = [(count_chars(start + 1) - (start < len(raw)), count_chars(end)) for start, end in utf8]
    return TokenSpans(text, tuple(tokenizer.readable(ids)), tuple(chars), tuple(utf8))


def _batch_sources(
    rows: Sequence[Sequence[int]], tokenizer: Tokenizer, device: torch.device
) -> tuple[Tensor, Tensor]:
    batch = batch_sources(rows, pad_id=tokenizer.pad_id, eos_id=tokenizer.eos_id)
    return batch.src_ids.to(device), batch.src_pad_mask.to(device)


@torch.inference_mode()
def attend(
    model: Transformer,
    src: Sequence[int],
    tgt: Sequence[int],
    tokenizers: Tokenizers,
) -> Attention:
    """Compute the attention maps of one pair of ids without special tokens."""
    device = model.output_proj.weight.device
    src_ids, src_pad_mask = _batch_sources([src], tokenizers.src, device)
    target = batch_targets(
        [tgt],
        pad_id=tokenizers.tgt.pad_id,
        bos_id=tokenizers.tgt.bos_id,
        eos_id=tokenizers.tgt.eos_id,
    )
    logits, maps = model.attend(src_ids, target.tgt_in.to(device), src_pad_mask)
    log_probs = logits[0].float().log_softmax(-1).cpu()  # (T, V)
    return Attention(
        src=locate(src, tokenizers.src),
        tgt=locate(tgt, tokenizers.tgt),
        cross=maps.cross_attn[0].float().cpu(),
        encoder_self=maps.src_self_attn[0].float().cpu(),
        decoder_self=maps.tgt_self_attn[0].float().cpu(),
        tgt_log_probs=tuple(log_probs.gather(1, target.tgt_out[0, :, None])[:, 0].tolist()),
        alignment_head=model.config.alignment_head,
        alignment_shift=model.config.alignment_shift,
    )


def summarize_score(sentences: Sequence[tuple[Sequence[str], Sequence[float]]]) -> PairScore:
    """Combine the target pieces, eos included, and log-probabilities of each sentence of a text."""
    log_probs = tuple(value for _, values in sentences for value in values)
    total = sum(log_probs)
    return PairScore(
        log_prob=total,
        perplexity=math.exp(min(-total / len(log_probs), 700)),
        tgt_tokens=tuple(piece for pieces, _ in sentences for piece in pieces),
        tgt_log_probs=log_probs,
    )


@torch.inference_mode()
def next_log_probs(
    model: Transformer,
    src: Sequence[int],
    prefix: Sequence[int],
    tokenizers: Tokenizers,
) -> Tensor:
    """Return next-token log-probabilities (V,) after a target prefix; -inf for pad and bos."""
    device = model.output_proj.weight.device
    src_ids, src_pad_mask = _batch_sources([src], tokenizers.src, device)
    tgt_in = torch.tensor([[tokenizers.tgt.bos_id, *prefix]], device=device)  # (1, T)
    hidden = model.decode(tgt_in, model.encode(src_ids, src_pad_mask), src_pad_mask)  # (1, T, D)
    log_probs = model.project(hidden[0, -1]).float().log_softmax(-1).cpu()  # (V,)
    log_probs[[tokenizers.tgt.pad_id, tokenizers.tgt.bos_id]] = -torch.inf
    return log_probs
