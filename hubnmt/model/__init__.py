"""The Transformer, from scratch: embeddings, attention, layers, the whole.

Takes token ids and padding facts, gives hidden states, logits and, on request, attention weights.
Must not know text, files, loss or search. Read in this order: `embedding`, `cache`, `attention`,
`feed_forward`, `layers`, `transformer`; for speed `packed_layers`, `packed_cache`,
`packed_sentence`, `packed`.
`README.md` draws every data flow with its shapes.

Dimension letters, the same in every file: B batch, S source tokens, T target tokens, Q/K query and
key positions, H heads, D d_model, E d_head = D / H, F d_ff, V vocabulary, L layers, W beam.
Source: Vaswani et al. 2017, https://arxiv.org/abs/1706.03762
"""

from hubnmt.model.kv_cache import DecoderCache
from hubnmt.model.transformer import AttentionMaps, Transformer

__all__ = ["AttentionMaps", "DecoderCache", "Transformer"]
