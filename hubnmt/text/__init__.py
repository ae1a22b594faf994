"""Tokenizers, sentence splitting, grapheme clusters, text files, metrics and language names."""
