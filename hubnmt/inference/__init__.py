"""Fast inference: the engine that batches and searches, packed weights, CTranslate2."""
