"""What `training.finish` measures and stores: scores, alignment head and the record of the run."""
