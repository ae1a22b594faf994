"""Application logic of the page, independent of Gradio.

Its functions raise a `HubNMTError` with a message for the visitor if an input, an option, a file or
a model is not valid or not available.
"""
