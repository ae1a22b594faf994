from xml.etree import ElementTree

import pytest

from hubnmt.ui.html.training_run import line_chart, run
from hubnmt.ui.services.training_runs import Run

POINTS = {
    "loss": ((50, 3.2), (100, 3.1)),
    "dev_loss": ((0, 7.25), (100, 2.6)),
    "bleu": ((9, 18.8),),
}


def test_a_run_shows_its_curves_and_that_it_is_the_last_stage():
    page = ElementTree.fromstring(f"<div>{run(Run(POINTS, [], (), '<i>de-en'))}</div>")
    assert "fine-tuned from <i>de-en: step 0 is that model" in " ".join(page.itertext())
    labels = [svg.get("aria-label") for svg in page.iter("svg")]
    assert labels == [
        "Loss (nats per token): training from 3.2 to 3.1; validation from 7.25 to 2.6",
        "Scores on the validation set: BLEU from 18.8 to 18.8",
    ]


@pytest.mark.parametrize("values", [(1.0, 2.0), (3.0, 3.0), (-1e12, 1e12), (1e12, 1e12), (0, 1e-9)])
def test_every_curve_is_within_the_plot(values: tuple[float, float]):
    figure = ElementTree.fromstring(line_chart("t", {"<b>": tuple(enumerate(values))}))
    (path,) = (
        each.get("d", "") for each in figure.iter("path") if "curve" in each.get("class", "")
    )
    numbers = [float(number) for number in path.replace("M", "").replace("L", "").split()]
    assert all(44 <= x <= 408 for x in numbers[::2])
    assert all(12 <= y <= 196 for y in numbers[1::2])
