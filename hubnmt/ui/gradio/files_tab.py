"""The Files tab: translate a file with progress, cancellation and download."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.events import LONG, QUIET, as_client, error_notice, heading, line
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.html import results
from hubnmt.ui.services import files
from hubnmt.ui.services.decoding_controls import read_options
from hubnmt.ui.services.registry import ModelRegistry

JOB = "file"
"""The job of a session that the next one, or Cancel, ends."""

LEAD = (
    f"Upload a txt, tsv or csv file in UTF-8, up to {files.MAX_FILE_MIB} MB and "
    f"{files.MAX_ROWS:,} lines. Each line, or each row of one column, is translated with the "
    "model selected above and the decoding options of the Translate tab."
)


class FilesTab:
    """Components and events of the tab."""

    def __init__(self, registry: ModelRegistry) -> None:
        """Create the components."""
        self._registry = registry
        heading("Translate a file", LEAD)
        self._notice = line()
        hidden: dict[str, Any] = {"visible": False}
        with gr.Row(elem_id="file-row"):
            with gr.Column(min_width=300):
                self._upload = gr.File(
                    label="File", file_types=list(files.KINDS), height=150, elem_id="upload"
                )
            with gr.Column(min_width=300):
                self._source = gr.Dropdown(
                    [], label="Source column", interactive=True, elem_id="source-column", **hidden
                )
                label = "The first line contains column names"
                self._has_header = gr.Checkbox(True, label=label, elem_id="has-header", **hidden)
        with gr.Row(elem_id="file-actions"):
            self._go = gr.Button("Translate file", variant="primary", elem_id="file-go")
            self._cancel = gr.Button("Cancel", variant="secondary", elem_id="file-cancel", **hidden)
            self._download = gr.DownloadButton(
                "Download translation", elem_id="file-download", **hidden
            )
        self._report = line(elem_id="file-report")

    def wire(self, model: gr.Dropdown, options: OptionsPanel) -> None:
        """Connect the events."""
        at_once = QUIET | {"queue": False}
        gr.on(
            [self._upload.upload, self._upload.clear, self._has_header.input],
            self._describe,
            [self._upload, self._has_header],
            [self._notice, self._source, self._has_header, self._cancel],
            **at_once,
        )
        chosen = [self._upload, model, self._source, self._has_header]
        # A click that comes while a cancelled job still ends would be ignored, so the button is
        # disabled until then.
        shown = self._go.click(
            lambda: ("", gr.Button(interactive=False)), None, [self._report, self._go], **at_once
        )
        running = shown.then(
            as_client(self._translate, replaces=JOB),
            [*chosen, *options.components],
            [self._notice, self._report, self._download],
            show_progress_on=self._report,
            **(LONG | QUIET | {"show_progress": "minimal"}),  # shows the position in the queue
        )
        running.then(lambda: gr.Button(interactive=True), None, self._go, **at_once)
        # The job ends itself, with what is done.
        self._cancel.click(as_client(lambda: None, replaces=JOB), None, None, **at_once)

    def _describe(self, path: str | None, has_header: bool) -> dict[Any, Any]:
        """Offer the columns of a file; one of several is chosen by the user."""
        names: list[str] = []
        if path is not None:
            try:
                names = files.read_table(Path(path), has_header=has_header).columns
            except HubNMTError as error:
                return {self._notice: error_notice(error)}
        is_table = path is not None and path.lower().endswith((".tsv", ".csv"))
        return {
            self._notice: "",
            self._source: gr.Dropdown(names, value=None, visible=len(names) > 1),
            self._has_header: gr.Checkbox(visible=is_table),
            self._cancel: gr.Button(visible=path is not None),
        }

    def _translate(
        self,
        path: str | None,
        model: str,
        source: str | None,
        has_header: bool,
        *controls: Any,
    ) -> Iterator[tuple[Any, ...]]:
        options = read_options(controls)
        del options["n_best"], options["prefix"]  # these apply to a single text only
        hidden = gr.DownloadButton(visible=False)
        try:
            for found in files.translate_file(
                self._registry, path, model, source=source or "", has_header=has_header, **options
            ):
                if found.path is None:
                    yield "", results.progress(found), hidden
                else:
                    ready = gr.DownloadButton(value=str(found.path), visible=found.n_done > 0)
                    yield "", results.file_result(found), ready
        except HubNMTError as error:
            yield error_notice(error), "", hidden
