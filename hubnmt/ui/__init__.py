"""The page: a translator in the browser that shows its attention.

`services` holds what the page does, without Gradio; `html` draws values as HTML; `gradio` lays out
the page and wires its events; `assets` are the style sheet and the scripts of the browser.
"""
