"""The named endpoints, put into the page for clients and agents.

Takes `Handlers`, gives `/translate`, `/attention`, `/score`, `/models` and `/translate_file`. Must
not know what they do.
"""

import gradio as gr
from gradio.events import api

from hubnmt.ui.gradio.events import HEAVY, LONG, on_model, said_to_client
from hubnmt.ui.services.api import Endpoints
from hubnmt.ui.services.translate import Handlers


def add_endpoints(handlers: Handlers) -> None:
    """Offer the named endpoints; call inside the page's `gr.Blocks`."""
    endpoints = Endpoints(handlers)
    for name in ("translate", "attention", "score"):
        api(on_model(said_to_client(getattr(endpoints, name))), api_name=name, **HEAVY)
    api(said_to_client(endpoints.models), api_name="models")
    _add_translate_file(endpoints)


def _add_translate_file(endpoints: Endpoints) -> None:
    """Offer `/translate_file`.

    Only a `gr.File` checks that a path is an upload of this page and not some other file of this
    machine, so this endpoint hangs on components, which nobody sees.
    """
    with gr.Row(visible=False):
        texts = [
            gr.Textbox("", label=label)
            for label in ("Model", "Column to translate", "Column of references")
        ]
        given = [gr.File(label="File"), *texts, gr.Checkbox(True, label="Has a header")]
        given += [gr.Number(None, label="Beam size"), gr.Number(None, label="Length penalty")]
        made = [gr.File(label="Translated file"), gr.JSON(label="Details")]
        gr.Button("Translate").click(
            on_model(said_to_client(endpoints.translate_file)),
            given,
            made,
            api_name="translate_file",
            **LONG,
        )
