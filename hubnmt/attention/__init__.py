"""Attention maps of a translation, computed by replaying it through the model."""
