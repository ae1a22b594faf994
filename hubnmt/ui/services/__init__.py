"""Application logic of the page, independent of Gradio."""
