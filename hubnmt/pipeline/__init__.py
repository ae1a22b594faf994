"""Translate text: segmentation, search, second search and assembly of `Translation`s."""
