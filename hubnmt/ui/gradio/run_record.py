"""The record of a training run: curves of loss and scores, and a slider over its validations."""

from typing import Any

import gradio as gr
import pandas as pd  # type: ignore[import-untyped]  # its stubs are another package

from hubnmt.ui.gradio.events import draw_static
from hubnmt.ui.services.training_runs import LOSSES, SCORES, Run

CHARTS = {"Loss (nats per token)": LOSSES, "Scores on the validation set": SCORES}


class RunRecord:
    """Components that the tabs Learn and Train share."""

    def __init__(self, elem_id: str) -> None:
        """Create the components; those without data are hidden."""
        with gr.Row(elem_id=f"{elem_id}-charts"):
            self._charts = [
                gr.LinePlot(
                    x="step",
                    y="value",
                    color="curve",
                    title=title,
                    height=250,
                    min_width=300,
                    visible="hidden",
                )
                for title in CHARTS
            ]
        self._validations = draw_static("validations", elem_id)
        self.components: list[gr.Component] = [*self._charts, self._validations]

    def show(self, run: Run) -> dict[Any, Any]:
        """Return the components with their values."""
        told = {"validations": run.validations, "started_from": run.started_from}
        shown: dict[Any, Any] = {self._validations: told}
        for chart, names in zip(self._charts, CHARTS.values(), strict=True):
            points = [point for point in run.points if point[1] in names.values()]
            table = pd.DataFrame(points, columns=["step", "curve", "value"])
            # A chart that is emptied or removed has errors in the browser's console (Gradio 6.31).
            change = {"value": table, "visible": True} if len(points) > len(names) else {}
            shown[chart] = gr.update(**{"visible": "hidden"} | change)
        return shown
