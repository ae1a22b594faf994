"""Rendering of a training run: curves, and the objective with the run's own numbers.

Source of label smoothing: Szegedy et al. 2016, section 7, https://arxiv.org/abs/1512.00567
"""

import html
import math

from hubnmt.ui.html.charts import Points, line_chart
from hubnmt.ui.services.training_runs import Recipe, Run

NO_RECIPE = (
    "The record has no recipe, so label smoothing and the settings of the learning rate are "
    "unknown."
)
MIN_DISTANCE_NATS = 0.4
"""Marks that are closer would overlap."""

MAX_NATS = 50
"""Larger losses are not those of a language model, and would flatten the curve."""

NO_RATES = "The record has no learning rates."

N_POINTS = 100
"""Points of a curve; with so many its bends look smooth."""


def run(found: Run) -> str:
    """Render the curves of a run, the loss of one token, label smoothing and learning rate."""
    curves = found.curves
    losses = {"training": curves.get("loss", ()), "validation": curves.get("dev_loss", ())}
    scores = {"BLEU": curves.get("bleu", ()), "chrF": curves.get("chrf", ())}
    charts = [
        line_chart("Loss (nats per token)", losses, x_label="step"),
        line_chart("Scores on the validation set", scores, x_label="step"),
        _token_loss(curves.get("dev_loss", ())),
        _label_smoothing(found.recipe),
        _learning_rate(curves.get("lr", ()), found.recipe),
    ]
    missing = [
        NO_RECIPE if found.recipe is None else "",
        "" if curves.get("lr") else NO_RATES,
    ]
    notes = "".join(f'<p class="hint">{note}</p>' for note in missing if note)
    return f'{_stage(found.recipe)}<div class="charts">{"".join(charts)}</div>{notes}'


def _stage(recipe: Recipe | None) -> str:
    """Say that the record is only the last stage of training, if it is."""
    if recipe is None or not recipe.started_from:
        return ""
    said = (
        f"The last stage of training, fine-tuned from {recipe.started_from}: step 0 is that model. "
        "The stages before have records of their own."
    )
    return f'<p class="hint stage-note">{html.escape(said)}</p>'


def _token_loss(dev_loss: Points) -> str:
    """Draw the loss of one token by its probability, with the run's validation losses marked."""
    marks = {}
    note = "The loss of a token is minus the logarithm of its probability."
    if dev_loss:
        (_, first), (_, last) = dev_loss[0], dev_loss[-1]
        named = {"first validation": first, "last validation": last}
        if abs(first - last) < MIN_DISTANCE_NATS:
            named = {"validation": last}
        marks = {
            name: (math.exp(-loss), loss) for name, loss in named.items() if 0 <= loss < MAX_NATS
        }
        if 0 <= last < MAX_NATS:
            note += (
                f" Last validation: {last:.2f} nats per token, so the correct token gets "
                f"{math.exp(-last):.1%} in geometric mean; perplexity {math.exp(last):.1f}."
            )
    curve = {"−log p": loss_curve(0.0, 2)}
    title = "Loss of one token (nats)"
    return line_chart(title, curve, x_label="probability p", marks=marks, note=note)


def _label_smoothing(recipe: Recipe | None) -> str:
    if recipe is None or recipe.label_smoothing is None or recipe.vocab_size is None:
        return ""
    smoothing, size = recipe.label_smoothing, recipe.vocab_size
    curves = {"without": loss_curve(0.0, size)}
    note = "This run used no label smoothing."
    if smoothing:
        correct, other = target_probabilities(smoothing, size)
        curves[f"label smoothing {smoothing:g}"] = loss_curve(smoothing, size)
        note = (
            f"This run's target: {correct:.1%} for the correct token, {other:.2g} for each of the "
            f"other {size - 1:,}. The training loss cannot fall below "
            f"{least_loss(smoothing, size):.2f} nats per token, and rises again where the "
            f"probability exceeds {correct:.0%}."
        )
    title = "Label smoothing (nats)"
    return line_chart(title, curves, x_label="probability of the correct token", note=note)


def _learning_rate(rates: Points, recipe: Recipe | None) -> str:
    parts = []
    if recipe is not None:
        parts = [f"Schedule: {recipe.schedule}"] if recipe.schedule else []
        parts += [] if recipe.lr is None else [f"lr {recipe.lr:g}"]
        warmup = recipe.warmup_steps
        parts += [] if warmup is None else [f"{warmup:,.0f} warm-up steps"]
    note = f"{', '.join(parts)}." if parts else ""
    return line_chart("Learning rate", {"rate": rates}, x_label="step", note=note)


def target_probabilities(label_smoothing: float, vocab_size: int) -> tuple[float, float]:
    """Return the target probability of the correct token, and that of every other token."""
    other = label_smoothing / vocab_size
    return 1 - label_smoothing + other, other


def token_loss(probability: float, label_smoothing: float, vocab_size: int) -> float:
    """Return the loss of one token, in nats, if all wrong tokens are equally probable.

    Args:
        probability: of the correct token, above 0 and below 1.
        label_smoothing: probability mass spread over the vocabulary; 0 for the plain loss.
        vocab_size: V, at least 2.
    """
    correct, other = target_probabilities(label_smoothing, vocab_size)
    n_wrong = vocab_size - 1
    wrong_log_prob = math.log((1 - probability) / n_wrong)
    return -correct * math.log(probability) - n_wrong * other * wrong_log_prob


def least_loss(label_smoothing: float, vocab_size: int) -> float:
    """Return the smallest possible loss of one token: the entropy of its target, in nats."""
    if not label_smoothing:
        return 0.0
    correct, _ = target_probabilities(label_smoothing, vocab_size)
    return token_loss(correct, label_smoothing, vocab_size)


def loss_curve(label_smoothing: float, vocab_size: int) -> list[tuple[float, float]]:
    """Return the loss of one token by its probability, as (probability, nats)."""
    probabilities = [(n + 0.5) / N_POINTS for n in range(N_POINTS)]
    return [(p, token_loss(p, label_smoothing, vocab_size)) for p in probabilities]
