"""Synthetic training text: back-translation and phrase tables."""
