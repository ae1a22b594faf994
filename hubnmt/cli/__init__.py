"""What `hubnmt COMMAND` does, one room per command or two; `hubnmt.__main__` lists them."""
