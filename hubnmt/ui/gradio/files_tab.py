"""The Files tab: translate a file with progress, cancellation, download and evaluation."""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.events import (
    LONG,
    QUIET,
    RUNS,
    as_client,
    error_notice,
    heading,
    line,
    on_model,
)
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.html import results
from hubnmt.ui.services import decoding_controls, tables
from hubnmt.ui.services.files import FileProgress, Files

NO_REFERENCE = ""
"""Value for no reference column."""

JOB = "file"
"""The job of a session that the next one, or Cancel, ends."""

LEAD = (
    f"Upload a {', '.join(tables.KINDS)} file in UTF-8, up to {tables.MAX_FILE_MIB} MB and "
    f"{tables.MAX_ROWS:,} lines. Each line, or each row of one column, is translated with the "
    "model selected above and the decoding options of the Translate tab. With a column of "
    "references, scores and the lowest-scoring sentences are shown."
)


class FilesTab:
    """Components and events of the tab."""

    def __init__(self, files: Files) -> None:
        """Create the components."""
        self._files = files
        heading("Translate a file", LEAD)
        self._notice = line()
        with gr.Row(elem_id="file-row"):
            with gr.Column(min_width=300):
                self._upload = gr.File(
                    label="File", file_types=list(tables.KINDS), height=150, elem_id="upload"
                )
            with gr.Column(min_width=300):
                self._source = _columns("Source column", "source-column")
                self._reference = _columns("Reference column", "reference-column")
                self._has_header = gr.Checkbox(
                    True,
                    label="The first line contains column names",
                    elem_id="has-header",
                    visible=False,
                )
        with gr.Row(elem_id="file-actions"):
            self._go = gr.Button("Translate file", variant="primary", elem_id="file-go")
            self._cancel = gr.Button(
                "Cancel", variant="secondary", elem_id="file-cancel", visible=False
            )
            self._download = gr.DownloadButton(
                "Download translation", visible=False, elem_id="file-download"
            )
        self._report = line(elem_id="file-report")

    def wire(self, model: gr.Dropdown, options: OptionsPanel) -> None:
        """Connect the events."""
        described = [self._notice, self._source, self._reference, self._has_header, self._cancel]
        gr.on(
            [self._upload.upload, self._upload.clear, self._has_header.input],
            as_client(self._describe),
            [self._upload, model, self._has_header],
            described,
            **RUNS,
        )
        chosen = [self._upload, model, self._source, self._reference, self._has_header]
        # A click that comes while a cancelled job still ends would be ignored, so the button is
        # disabled until then.
        shown = self._go.click(_started, None, [self._report, self._go], queue=False, **QUIET)
        running = shown.then(
            on_model(self._translate, replaces=JOB),
            [*chosen, *options.components],
            [self._notice, self._report, self._download],
            show_progress_on=self._report,
            **(LONG | QUIET | {"show_progress": "minimal"}),  # shows the position in the queue
        )
        running.then(_ended, None, self._go, queue=False, **QUIET)
        # The job ends itself, with what is done.
        self._cancel.click(as_client(_nothing, replaces=JOB), None, None, queue=False, **QUIET)

    def _describe(self, path: str | None, model: str, has_header: bool) -> tuple[Any, ...]:
        if path is None:
            hidden = gr.Checkbox(visible=False), gr.Button(visible=False)
            return "", _choices(()), _choices(()), *hidden
        try:
            found = self._files.describe(path, model, has_header=has_header)
        except HubNMTError as error:
            return error_notice(error), *(gr.skip(),) * 4
        references = (NO_REFERENCE, *found.columns) if len(found.columns) > 1 else ()
        return (
            "",
            _choices(found.columns, found.source),
            _choices(references, found.reference),
            gr.Checkbox(visible=path.lower().endswith((".tsv", ".csv"))),
            gr.Button(visible=True),
        )

    def _translate(
        self,
        path: str | None,
        model: str,
        source: str | None,
        reference: str | None,
        has_header: bool,
        *options: Any,
    ) -> Iterator[tuple[Any, ...]]:
        overrides = decoding_controls.read_options(options)
        del overrides["n_best"], overrides["prefix"]  # these apply to a single text only
        hidden = gr.DownloadButton(visible=False)
        try:
            for found in self._files.translate(
                path,
                model,
                source=source or "",
                reference=reference or "",
                has_header=has_header,
                **overrides,
            ):
                if isinstance(found, FileProgress):
                    yield "", results.progress(found), hidden
                else:
                    ready = gr.DownloadButton(value=str(found.path), visible=found.n_done > 0)
                    yield "", results.file_result(found), ready
        except HubNMTError as error:
            yield error_notice(error), "", hidden


def _started() -> tuple[Any, ...]:
    return "", gr.Button(interactive=False)


def _ended() -> Any:
    return gr.Button(interactive=True)


def _nothing() -> None:
    return


def _columns(label: str, elem_id: str) -> gr.Dropdown:
    return gr.Dropdown([], label=label, elem_id=elem_id, interactive=True, visible=False)


def _choices(columns: tuple[str, ...], chosen: str = "") -> gr.Dropdown:
    named = [(name or "none", name) for name in columns]
    return gr.Dropdown(named, value=chosen if columns else None, visible=len(columns) > 1)
