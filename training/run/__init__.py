"""A training run: loop, validation, checkpoints, logs, run folder."""
