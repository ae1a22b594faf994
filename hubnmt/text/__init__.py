"""Text: tokenizers, sentence splitting, grapheme clusters, text files, metrics, language names."""
