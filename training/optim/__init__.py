"""Optimizer step: loss, learning-rate schedule and out-of-memory reports."""
