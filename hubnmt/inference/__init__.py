"""Inference engines: PyTorch with packed weights, and CTranslate2."""

from hubnmt.inference.ctranslate2_engine import CTranslate2Engine
from hubnmt.inference.engine import TorchEngine

Engine = TorchEngine | CTranslate2Engine
"""Maps rows of source ids to hypotheses; `TorchEngine` is the reference."""
