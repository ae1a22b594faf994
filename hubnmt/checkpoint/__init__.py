"""Save and load model folders: configuration, tokenizers, weights and model card."""
