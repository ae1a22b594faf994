"""Synthetic training data: back-translation, phrase tables, filled frames, typing variants."""
