"""Decoding algorithms: greedy search, beam search and sampling over any next-token `Step`.

Nothing here depends on the model; `inference.engine` adapts a Transformer to `Step`.
"""
