"""Training of translation models, from raw text to a published model folder.

`python -m training.train RECIPE.toml` trains a model; `python -m training.finish RUN_DIR` tunes its
decoding, evaluates it and writes its card. Subpackages: `config` (recipes), `data` (text to
batches), `augment` (synthetic pairs), `optim` (optimizer step), `run` (training loop, validation,
checkpoints) and `release` (model card and publishing).
"""
