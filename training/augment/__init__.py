"""Synthetic training data: back-translation, phrase tables and word alignment."""
