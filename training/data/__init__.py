"""Data: from files and Hub datasets to batches of token ids."""
