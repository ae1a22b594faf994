"""Training: from raw text to a finished model folder.

`python -m training.train RECIPE.toml` trains, `python -m training.finish RUN_DIR` measures and
writes the card. `config` reads recipes; `data` turns text into batches of ids; `augment` makes
synthetic pairs; `optim` is one optimizer step; `run` is the training loop with its records;
`release` writes what is published. Imports `hubnmt` and never the page.
"""
