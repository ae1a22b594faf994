"""What the model looked at, and how sure it was: one replay of known tokens.

Takes a model and ids, gives attention maps with readable tokens, and token log-probabilities. Must
not know Gradio, training or search: a search carries no attention; its result is replayed here, and
the replayed log-probability must equal the search's.
"""

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from hubnmt.batching import batch_sources, batch_targets
from hubnmt.model import Transformer
from hubnmt.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Attention:
    """Every head's weights for one sentence pair; each row sums to 1."""

    src_tokens: tuple[str, ...]
    """S readable source pieces, `<eos>` last."""
    tgt_tokens: tuple[str, ...]
    """T readable target pieces, `<eos>` last. Row t belongs to the step that chose token t."""
    cross: Tensor
    """(L, H, T, S)."""
    encoder_self: Tensor
    """(L, H, S, S)."""
    decoder_self: Tensor
    """(L, H, T, T); column k is the input of step k: bos, then the first T - 1 target tokens."""
    tgt_log_probs: tuple[float, ...]
    """Of each target token, nats."""


def readable_pieces(ids: Sequence[int], tokenizer: Tokenizer) -> list[str]:
    """Show ids to a person: text where a piece is whole characters, hex bytes where it is not.

    A leading space marks the start of a word.
    """
    names = {tokenizer.pad_id: "<pad>", tokenizer.bos_id: "<bos>", tokenizer.eos_id: "<eos>"}
    pieces = []
    for token_id in ids:
        raw = tokenizer.piece_bytes(token_id)
        try:
            pieces.append(names.get(token_id) or raw.decode("utf-8"))
        except UnicodeDecodeError:
            pieces.append(f"<{raw.hex(' ').upper()}>")
    return pieces


@torch.inference_mode()
def attend(
    model: Transformer,
    src: Sequence[int],
    tgt: Sequence[int],
    *,
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
) -> Attention:
    """Replay one pair with explicit attention; ids without special tokens."""
    device = model.output_proj.weight.device
    src_ids, src_pad_mask = (
        tensor.to(device)
        for tensor in batch_sources([src], pad_id=src_tokenizer.pad_id, eos_id=src_tokenizer.eos_id)
    )
    target = batch_targets(
        [tgt],
        pad_id=tgt_tokenizer.pad_id,
        bos_id=tgt_tokenizer.bos_id,
        eos_id=tgt_tokenizer.eos_id,
    )
    logits, maps = model.attend(src_ids, target.tgt_in.to(device), src_pad_mask)
    log_probs = logits[0].float().log_softmax(-1).cpu()  # (T, V)
    return Attention(
        src_tokens=tuple(readable_pieces([*src, src_tokenizer.eos_id], src_tokenizer)),
        tgt_tokens=tuple(readable_pieces([*tgt, tgt_tokenizer.eos_id], tgt_tokenizer)),
        cross=maps.cross_attn[0].float().cpu(),
        encoder_self=maps.src_self_attn[0].float().cpu(),
        decoder_self=maps.tgt_self_attn[0].float().cpu(),
        tgt_log_probs=tuple(log_probs.gather(1, target.tgt_out[0, :, None])[:, 0].tolist()),
    )


@torch.inference_mode()
def score_targets(
    model: Transformer,
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
) -> list[tuple[float, ...]]:
    """Teacher-force pairs of ids (without special tokens), one batch.

    Returns:
        for each pair the log-probability of every target token and of eos, nats.
    """
    device = model.output_proj.weight.device
    src_ids, src_pad_mask = (
        tensor.to(device)
        for tensor in batch_sources(
            [src for src, _ in pairs], pad_id=src_tokenizer.pad_id, eos_id=src_tokenizer.eos_id
        )
    )
    target = batch_targets(
        [tgt for _, tgt in pairs],
        pad_id=tgt_tokenizer.pad_id,
        bos_id=tgt_tokenizer.bos_id,
        eos_id=tgt_tokenizer.eos_id,
    )
    memory = model.encode(src_ids, src_pad_mask)
    hidden = model.decode(target.tgt_in.to(device), memory, src_pad_mask)  # (B, T, D)
    is_label = ~target.tgt_pad_mask  # (B, T)
    logits = model.project(hidden[is_label.to(device)]).float()  # (N, V)
    labels = target.tgt_out[is_label].to(device)  # (N,)
    flat = logits.log_softmax(-1).gather(1, labels[:, None])[:, 0].cpu()  # (N,)
    lengths = is_label.sum(1).tolist()
    return [tuple(row.tolist()) for row in torch.split(flat, lengths)]


@torch.inference_mode()
def next_log_probs(
    model: Transformer,
    src: Sequence[int],
    said: Sequence[int],
    src_tokenizer: Tokenizer,
    tgt_tokenizer: Tokenizer,
) -> Tensor:
    """Ask what comes next behind a source and the target tokens said so far.

    Returns:
        (V,) log-probabilities, -inf for pad and bos.
    """
    device = model.output_proj.weight.device
    src_ids, src_pad_mask = (
        tensor.to(device)
        for tensor in batch_sources([src], pad_id=src_tokenizer.pad_id, eos_id=src_tokenizer.eos_id)
    )
    tgt_in = torch.tensor([[tgt_tokenizer.bos_id, *said]], device=device)  # (1, T)
    hidden = model.decode(tgt_in, model.encode(src_ids, src_pad_mask), src_pad_mask)  # (1, T, D)
    log_probs = model.project(hidden[0, -1]).float().log_softmax(-1).cpu()  # (V,)
    log_probs[[tgt_tokenizer.pad_id, tgt_tokenizer.bos_id]] = -torch.inf
    return log_probs
