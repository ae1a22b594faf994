"""The layout of the page, its events and its named endpoints, in Gradio."""
