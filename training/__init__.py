"""Training: from raw text to a finished model folder.

`python -m training.train RECIPE.toml` is the door. In reading order: `config` (recipes), `corpora`
(text to clean pairs), `batches`, `loss`, `schedule`, `evaluate`, `state` (stop and go on), `report`
(what people read), `train` (the run, top to bottom). Builds on `hubnmt`, which knows nothing of it;
must not know the app.
"""
