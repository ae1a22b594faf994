"""Download models from the Hugging Face Hub, publish them there, list them, serve them as a Space.

Import from the modules: `reference` (`user/name@revision`), `pull`, `push`, `listing`, `space`.
"""
