"""Hugging Face Hub: download, publish and list models, and serve them as a Space.

Public modules: `reference` (`user/name@revision`), `pull`, `push`, `listing`, `space`. Requests,
retries and the cache are those of `huggingface_hub`; `client` turns its exceptions into one line.
"""
