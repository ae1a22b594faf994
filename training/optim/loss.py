"""Fused output projection and label-smoothed cross-entropy.

For N tokens and a vocabulary of V, the full logits are N x V. Here tokens are processed in slices
that fit in the cache: project, softmax, and compute the gradients at once, so that no logits are
stored for the backward pass. Sources: label smoothing, Szegedy et al. 2016, section 7,
https://arxiv.org/abs/1512.00567; fusing projection and loss, Liger Kernel,
https://arxiv.org/abs/2410.10989
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

CPU_SLICE_TOKENS = 512
"""Tokens per slice on a CPU: 512 x 8,000 bf16 logits are 8 MB; the fastest of 256 to 4,096 on two
cores."""
GPU_SLICE_TOKENS = 8192
"""Tokens per slice on a GPU: large products use it fully; 8,192 x 16,000 logits take 256 MB."""


class LossSums(NamedTuple):
    """Sums over all non-pad tokens, in nats; divide by the token count of the whole step."""

    smoothed: Tensor
    """Training loss, a scalar with gradient."""
    nll: Tensor
    """Negative log-likelihood of the labels without smoothing, a scalar without gradient."""


class _ProjectedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, smoothing: float, need_grad: bool
    ) -> tuple[Tensor, Tensor]:
        # 1. Allocate the sums and gradients, and the logits of one slice.
        device_type = hidden.device.type
        dtype = torch.get_autocast_dtype(device_type)
        if not torch.is_autocast_enabled(device_type):
            dtype = hidden.dtype
        h, w = hidden.to(dtype), weight.to(dtype)  # (N, D), (V, D)
        slice_tokens = CPU_SLICE_TOKENS if device_type == "cpu" else GPU_SLICE_TOKENS
        grad_h = torch.empty_like(h)  # (N, D)
        grad_w = torch.zeros_like(w, dtype=torch.float32)  # (V, D)
        shape = (min(slice_tokens, len(h)), len(w))
        all_logits, all_probs = h.new_empty(shape), h.new_empty(shape)  # reused for all slices
        nll = hidden.new_zeros((), dtype=torch.float32)
        normalizers = hidden.new_zeros((), dtype=torch.float32)
        # 2. Take the tokens slice by slice: their loss, and its gradients.
        with torch.autocast(device_type, enabled=False):
            for start in range(0, len(h), slice_tokens):
                rows = slice(start, start + slice_tokens)
                label = labels[rows]  # (n,)
                at_label = torch.arange(len(label), device=label.device), label
                logits = torch.mm(h[rows], w.T, out=all_logits[: len(label)])  # (n, V)
                # softmax accumulates in float32.
                probs = torch.softmax(logits, -1, out=all_probs[: len(label)])  # (n, V)
                normalizer = _log_normalizer(logits, probs, at_label)  # (n,)
                normalizers += normalizer.sum()
                nll += (normalizer - logits[at_label].float()).sum()
                if need_grad:
                    probs[at_label] -= 1 - smoothing
                    torch.mm(probs, w, out=grad_h[rows])
                    grad_w += probs.T @ h[rows]
            # 3. Add the uniform part of the target: equal for all V pieces, so one row suffices.
            mean_w = weight.float().mean(0)  # (D,)
            sum_h = h.sum(0, dtype=torch.float32)  # (D,)
            smoothed = (1 - smoothing) * nll + smoothing * (normalizers - sum_h @ mean_w)
            if need_grad:
                grad_h -= (smoothing * mean_w).to(dtype)
                grad_w -= smoothing / len(w) * sum_h
        ctx.save_for_backward(grad_h, grad_w)
        ctx.dtypes = hidden.dtype, weight.dtype
        ctx.mark_non_differentiable(nll)
        return smoothed, nll

    @staticmethod
    def backward(
        ctx: Any, grad_smoothed: Tensor, _grad_nll: Tensor
    ) -> tuple[Tensor, Tensor, None, None, None]:
        grad_h, grad_w = ctx.saved_tensors
        hidden_dtype, weight_dtype = ctx.dtypes
        scaled_h = (grad_h * grad_smoothed.to(grad_h.dtype)).to(hidden_dtype)
        return scaled_h, (grad_w * grad_smoothed).to(weight_dtype), None, None, None


def _log_normalizer(logits: Tensor, probs: Tensor, at_label: tuple[Tensor, Tensor]) -> Tensor:
    """Return the log-normaliser of the softmax, (n,), from one entry of each row.

    On a CPU the label's entry is used, unless it is denormal: finding the largest entry, which is
    at least 1 / V, takes longer than the softmax. On a GPU the largest entry is always used,
    because testing the label's would synchronise.
    """
    anchor = at_label
    if logits.device.type != "cpu" or probs[at_label].min() < torch.finfo(probs.dtype).tiny:
        anchor = at_label[0], logits.max(-1).indices
    return logits[anchor].float() - probs[anchor].float().log()


def projected_cross_entropy(
    hidden: Tensor, weight: Tensor, labels: Tensor, *, label_smoothing: float
) -> LossSums:
    """Sum the label-smoothed negative log-likelihood of the labels.

    Args:
        hidden: (N, D) decoder output at non-pad tokens.
        weight: (V, D) output projection.
        labels: (N,) int64.
        label_smoothing: probability mass spread uniformly over all V pieces.

    Returns:
        sums over the N tokens; under autocast the products use its dtype, the sums float32.
    """
    need_grad = torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad)
    sums = _ProjectedCrossEntropy.apply(hidden, weight, labels, label_smoothing, need_grad)  # type: ignore[no-untyped-call]  # torch's own
    return LossSums(*sums)
