"""Publishing a finished run: model card, alignment head and model folder."""
