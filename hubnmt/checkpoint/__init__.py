"""The model folder: configuration, tokenizers, weights, model card."""
