"""Gradio page for translation, model comparison and inspection of attention.

`services` contains the application logic, `html` renders values as HTML, `gradio` defines layout
and events, and `assets` holds the style sheet and browser scripts.
"""
