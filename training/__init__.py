"""Training: from raw text to a finished model folder.

`python -m training.train RECIPE.toml` is the door. In reading order: `data_config` and `config`
(recipes); `sources` (files, tables, the Hub), `cleaning` with `scripts`, `corpora` (all pairs of a
recipe); `arrow`, `cache`, `text_store`, `pair_store`, `prepare` (text to ids on disk, once);
`batches`, `bpe_dropout`, `stream` (ids to batches in order); `loss`, `fitting`, `schedule`,
`evaluate`, `state` (stop and go on), `report` (what people read), `train` (the run, top to bottom).
Beside it stand `back_translate` (synthetic pairs), `toy` and `finish`. Builds on `hubnmt`, which
knows nothing of it; must not know the app.
"""
