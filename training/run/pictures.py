"""Attention as a picture, drawn with nothing but tensors.

Takes the weights of every head, gives pixels. Must not know the model or where pictures are shown.
"""

import torch
from torch import Tensor
from torch.nn import functional

CELL = 8
"""Pixels per weight, each way."""
GAP = 4
"""Pixels between two heads."""


def draw_heads(weights: Tensor, *, cell: int = CELL) -> Tensor:
    """Draw one row of pictures per layer, one column per head; darker means more attention.

    Args:
        weights: (L, H, T, S) in [0, 1]; rows are target tokens, columns source tokens.
        cell: pixels per weight.

    Returns:
        (3, height, width) uint8.
    """
    n_layers, n_heads, _, _ = weights.shape
    ink = weights.float().cpu().clamp(0, 1).sqrt()  # faint weights stay visible
    ink = ink.repeat_interleave(cell, dim=2).repeat_interleave(cell, dim=3)
    framed = functional.pad(ink, (GAP, 0, GAP, 0))  # (L, H, GAP + T * cell, GAP + S * cell)
    height, width = framed.shape[2:]
    page = framed.permute(0, 2, 1, 3).reshape(n_layers * height, n_heads * width)
    page = functional.pad(page, (0, GAP, 0, GAP))
    paper, pen = torch.tensor([255.0, 255.0, 255.0]), torch.tensor([23.0, 37.0, 84.0])
    colors = paper[:, None, None] + page * (pen - paper)[:, None, None]
    return colors.round().to(torch.uint8)  # (3, height, width)
