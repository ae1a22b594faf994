"""Hugging Face Hub: download, publish and list models, and serve them as a Space.

Public modules: `pull`, `push`, `listing`, `space`. Requests, retries and the cache are those of
`huggingface_hub`; `client` reads references and turns the exceptions into one line.
"""
