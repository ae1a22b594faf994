"""Training of translation models, from raw text to a published model folder.

`python -m training.train RECIPE.toml` trains a model; `python -m training.finish RUN_DIR` tunes its
decoding, evaluates it and writes its card.
"""
