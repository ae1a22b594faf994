"""Gradio layout, events and API endpoints of the page."""
