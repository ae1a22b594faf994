"""The commands of `hubnmt`, one module each; `hubnmt.__main__` lists them."""
