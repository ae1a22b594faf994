"""What the page does, as plain functions and classes without Gradio."""
