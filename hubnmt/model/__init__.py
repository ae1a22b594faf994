"""The Transformer encoder-decoder, implemented from scratch: `Transformer` and its parts.

Suggested reading order: `transformer`, `layers`, `attention`. `README.md` draws the data
flow with its shapes.

Dimension letters, the same in every file: B batch, S source tokens, T target tokens, Q/K query and
key positions, H heads, D d_model, E d_head = D / H, F d_ff, V vocabulary, L layers, W beam.
Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
"""
