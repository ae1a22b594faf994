"""What a finished run publishes: card facts, alignment head, model folder."""
