"""Attention maps of a translation, computed by a teacher-forced pass."""
