from xml.etree import ElementTree

from hubnmt.ui.html.training_run import run
from hubnmt.ui.services.training_runs import Recipe, Run

MARKUP = "<img src=x onerror=alert(1)>"


def _text(page: str) -> str:
    """Read a piece of HTML as a browser would show it; fails where a tag is left open."""
    return " ".join(ElementTree.fromstring(f"<div>{page}</div>").itertext())


def test_a_run_shows_curves_and_the_objective_with_its_own_numbers():
    recipe = Recipe(
        label_smoothing=0.1,
        vocab_size=8017,
        schedule=MARKUP,
        lr=8e-4,
        warmup_steps=60,
        started_from="<i>de-en",
    )
    curves = {
        "loss": ((50, 3.2), (100, 3.1)),
        "dev_loss": ((0, 7.25), (100, 2.6)),
        "bleu": ((100, 18.8),),
        "lr": ((50, 6e-4), (100, 8e-4)),
    }
    page = run(Run(curves, (), (), recipe))
    said = _text(page)
    assert "fine-tuned from <i>de-en: step 0 is that model" in said
    assert page.count("<svg") == 5
    assert page.count("<circle") == 2
    for fact in ("2.60 nats", "7.4%", "perplexity 13.5", "90.0%", "8,016", "1.22 nats"):
        assert fact in said
    assert f"Schedule: {MARKUP}, lr 0.0008, 60 warm-up steps." in said
    assert "<img" not in page
