"""The tab that translates a file, with progress, cancel, download and scores.

Takes `Files` and the picked model, gives components and their events. Must not know how files are
read.
"""

from collections.abc import Iterator
from typing import Any

import gradio as gr

from hubnmt.errors import HubNMTError
from hubnmt.ui.gradio.events import (
    LONG,
    QUIET,
    RUNS,
    error_notice,
    heading,
    line,
    on_model,
    said_in_page,
)
from hubnmt.ui.gradio.options import OptionsPanel
from hubnmt.ui.html import results
from hubnmt.ui.services import decoding_controls, tables
from hubnmt.ui.services.files import FileProgress, Files

NO_REFERENCE = ""
"""What the list of reference columns says for none."""

LEAD = (
    f"Give a {', '.join(tables.KINDS)} file in UTF-8, up to {tables.MAX_FILE_MIB} MB and "
    f"{tables.MAX_ROWS:,} lines. Each line, or each row of one column, is translated by the model "
    "chosen above with the decoding options of the first tab. With a column of references you also "
    "get scores and the worst sentences."
)


class FilesTab:
    """The components of the tab, and their events."""

    def __init__(self, files: Files) -> None:
        """Place the components."""
        self._files = files
        heading("Translate a file", LEAD)
        self._notice = line()
        with gr.Row(elem_id="file-row"):
            with gr.Column(min_width=300):
                self._upload = gr.File(
                    label="File", file_types=list(tables.KINDS), height=150, elem_id="upload"
                )
            with gr.Column(min_width=300):
                self._source = _columns("Column to translate", "source-column")
                self._reference = _columns("Column of references", "reference-column")
                self._has_header = gr.Checkbox(
                    True,
                    label="The first line names the columns",
                    elem_id="has-header",
                    visible=False,
                )
        with gr.Row(elem_id="file-actions"):
            self._go = gr.Button("Translate file", variant="primary", elem_id="file-go")
            self._cancel = gr.Button(
                "Cancel", variant="secondary", elem_id="file-cancel", visible=False
            )
            self._download = gr.DownloadButton(
                "Download the translation", visible=False, elem_id="file-download"
            )
        self._report = line(elem_id="file-report")

    def wire(self, model: gr.Dropdown, options: OptionsPanel) -> None:
        """Connect every component to its handler."""
        seen = [self._notice, self._source, self._reference, self._has_header, self._cancel]
        gr.on(
            [self._upload.upload, self._upload.clear, self._has_header.input],
            said_in_page(self._describe, blank=(gr.skip(),) * 4),
            [self._upload, model, self._has_header],
            seen,
            **RUNS,
        )
        chosen = [self._upload, model, self._source, self._reference, self._has_header]
        # What a cancelled job said last may arrive after the answer to the cancelling (Gradio 6.31
        # sends the two by different ways): the next job's report is shown, a cancelled one's not.
        shown = self._go.click(_shown, None, self._report, queue=False, **QUIET)
        running = shown.then(
            on_model(self._translate),
            [*chosen, *options.components],
            [self._notice, self._report, self._download],
            show_progress_on=self._report,
            **(LONG | QUIET | {"show_progress": "minimal"}),  # tells the place in the line
        )
        self._cancel.click(
            _cancelled,
            None,
            [self._notice, self._report, self._download],
            cancels=[running],
            queue=False,
            **QUIET,
        )

    def _describe(self, path: str | None, model: str, has_header: bool) -> tuple[Any, ...]:
        if path is None:
            gone = gr.Checkbox(visible=False), gr.Button(visible=False)
            return "", _choices(()), _choices(()), *gone
        found = self._files.describe(path, model, has_header=has_header)
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
        said = decoding_controls.read_options(options)
        del (
            said["n_best"],
            said["prefix"],
        )  # each row has one translation, with a beginning of its own
        nothing = gr.DownloadButton(visible=False)
        try:
            for found in self._files.translate(
                path,
                model,
                source=source or "",
                reference=reference or "",
                has_header=has_header,
                **said,
            ):
                if isinstance(found, FileProgress):
                    yield "", results.progress(found), nothing
                else:
                    ready = gr.DownloadButton(value=str(found.path), visible=True)
                    yield "", results.file_result(found), ready
        except HubNMTError as error:
            yield error_notice(error), "", nothing


def _shown() -> Any:
    return gr.HTML("", visible=True)


def _cancelled() -> tuple[Any, ...]:
    return "", gr.HTML(visible=False), gr.DownloadButton(visible=False)


def _columns(label: str, elem_id: str) -> gr.Dropdown:
    return gr.Dropdown([], label=label, elem_id=elem_id, interactive=True, visible=False)


def _choices(columns: tuple[str, ...], chosen: str = "") -> gr.Dropdown:
    """Offer columns, where there is anything to choose."""
    named = [(name or "none", name) for name in columns]
    return gr.Dropdown(named, value=chosen if columns else None, visible=len(columns) > 1)
