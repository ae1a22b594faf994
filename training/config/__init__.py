"""Recipes: TOML files read into validated, frozen dataclasses."""
