"""The commands of `hubnmt`; `hubnmt.cli.app` lists them.

A command imports what is heavy when it runs, so that `--help` answers at once.
"""
