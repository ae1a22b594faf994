"""Training: from raw text to a finished model folder.

`python -m training.train RECIPE.toml` is the door. In reading order: `settings` and `config`
(recipes), `corpora` (text to clean pairs), `batches` and `feed` (pairs to the batches of each
process), `team` (the processes), `loss`, `schedule`, `step` (one optimizer step), `weights`
(averages), `evaluate` and `validate` (how good they are), `state` (stop and go on), `report` (what
people read), `publish` (the Hub), `loop` (all of it, again and again), `train` (the command).
Builds on `hubnmt`, which knows nothing of it; must not know the app.
"""
