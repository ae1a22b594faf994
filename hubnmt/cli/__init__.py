"""Subcommands of the `hubnmt` command line; `hubnmt.__main__` registers them."""
