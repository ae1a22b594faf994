"""The commands of `hubnmt`; a command imports what is heavy when it runs, so that help is quick."""
