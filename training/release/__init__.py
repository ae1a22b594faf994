"""What `training.finish` measures: scores, examples and the alignment head."""
