"""Optimizer step: loss, learning-rate schedule, weight averaging and out-of-memory reports."""
