"""Training: from raw text to a finished model folder.

`python -m training.train RECIPE.toml` is the door. In reading order: `data_config`, `settings` and
`config` (recipes); `sources` (files, tables, the Hub), `cleaning` with `scripts`, `names` and
`typed` (what is changed on purpose), `corpora` (all pairs of a recipe); `arrow`, `cache`,
`text_store`, `pair_store`, `prepare` (text to ids on disk, once); `batches`, `bpe_dropout`,
`stream` (ids to batches in order); `team` (the processes) and `feed` (what each does in a step);
`loss`, `fitting`, `schedule`, `step` (one optimizer step);
`weights` (averages), `evaluate` and `validate` (how good they are); `state` (stop and go on);
`meter`, `report` with `pictures` and `tracking` (what people see), `publish` (the Hub); `loop` (all
of it, again and again), `train` (the command). Beside it stand `back_translate` (synthetic pairs),
`toy` and `finish`. Builds on `hubnmt`, which knows nothing of it; must not know the app.
"""
