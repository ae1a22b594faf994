"""One optimizer step: loss, learning rate, averaging, out-of-memory reports."""
