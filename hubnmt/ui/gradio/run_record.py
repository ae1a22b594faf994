"""The record of a training run: curves of loss and scores, and a slider over its validations."""

from typing import Any

import gradio as gr
import pandas as pd  # type: ignore[import-untyped]  # its stubs are another package

from hubnmt.ui.gradio.events import draw_static
from hubnmt.ui.services.training_runs import LOSSES, SCORES, Run

CHARTS = {"Loss (nats per token)": LOSSES, "Scores on the validation set": SCORES}
COLORS = ("#6366f1", "#d97706")


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
                    y_title=" ",
                    color_title=" ",
                    color_map=dict(zip(names.values(), COLORS, strict=True)),
                    height=250,
                    min_width=300,
                    visible=False,
                )
                for title, names in CHARTS.items()
            ]
        self._validations = draw_static("validations", elem_id)
        self.components: list[gr.Component] = [*self._charts, self._validations]

    def show(self, run: Run | None) -> dict[Any, Any]:
        """Return the components with their values."""
        told = {"validations": run.validations, "started_from": run.started_from} if run else None
        shown: dict[Any, Any] = {self._validations: told}
        for chart, names in zip(self._charts, CHARTS.values(), strict=True):
            points = [point for point in run.points if point[1] in names.values()] if run else []
            table = pd.DataFrame(points, columns=["step", "curve", "value"])
            shown[chart] = gr.LinePlot(table if points else None, visible=bool(points))
        return shown
