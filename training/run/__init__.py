"""A training run: loop, validation, checkpoints, logging and run folder."""
