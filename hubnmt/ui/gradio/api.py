"""Registration of the named API endpoints."""

import gradio as gr
from gradio.events import api

from hubnmt.ui.gradio.events import HEAVY, LONG, on_model, said_to_client
from hubnmt.ui.services.api import Endpoints
from hubnmt.ui.services.translate import Handlers


def add_endpoints(handlers: Handlers) -> None:
    """Register the named endpoints; must be called inside the page's `gr.Blocks`."""
    endpoints = Endpoints(handlers)
    for name in ("translate", "attention", "score"):
        api(on_model(said_to_client(getattr(endpoints, name))), api_name=name, **HEAVY)
    api(said_to_client(endpoints.models), api_name="models")
    _add_translate_file(endpoints)


def _add_translate_file(endpoints: Endpoints) -> None:
    """Register `/translate_file` on hidden components.

    Only a `gr.File` input verifies that a path is an upload of this page and not another file of
    the server.
    """
    with gr.Row(visible=False):
        texts = [
            gr.Textbox("", label=label) for label in ("Model", "Source column", "Reference column")
        ]
        inputs = [gr.File(label="File"), *texts, gr.Checkbox(True, label="Has a header")]
        inputs += [gr.Number(None, label="Beam size"), gr.Number(None, label="Length penalty")]
        outputs = [gr.File(label="Translated file"), gr.JSON(label="Details")]
        gr.Button("Translate").click(
            on_model(said_to_client(endpoints.translate_file)),
            inputs,
            outputs,
            api_name="translate_file",
            **LONG,
        )
