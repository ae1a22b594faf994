"""Inference engines: PyTorch with packed weights, and CTranslate2."""
