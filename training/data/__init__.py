"""Data pipeline: from files and Hub datasets to batches of token ids."""
