"""Translate text: segmentation, decoding, fallback decoding and assembly of `Translation`s."""
