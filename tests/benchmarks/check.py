"""How well the mean token probability separates wrong translations from right ones.

    python tests/benchmarks/check.py [MODEL ...]

For the translations of `tests/fixtures/judged-MODEL.tsv`, judged by hand, prints the area under the
ROC curve, wrong against the others (0.5 says nothing, 1 separates them), and of each judgement the
share with a probability below `CHECK_BELOW`. Asserts nothing.
"""

from typing import Annotated

import torch
import typer
from tables import FIXTURES, read_table, show_table

from hubnmt import Translator
from hubnmt.types import CHECK_BELOW, mean_probability

MODELS = ["de-en", "en-de", "en-fr", "fr-en", "en-ml"]
JUDGEMENTS = ("right", "understandable", "wrong")


def area(wrong: list[float], others: list[float]) -> float:
    """Return the probability that a wrong translation has the lower value (ties count half)."""
    lower, higher = torch.tensor(wrong)[:, None], torch.tensor(others)[None, :]
    return ((lower < higher).float() + 0.5 * (lower == higher).float()).mean().item()


def main(models: Annotated[list[str], typer.Argument()] = MODELS) -> None:
    rows = []
    for name in models:
        translator = Translator.from_pretrained(name)
        found: dict[str, list[float]] = {judgement: [] for judgement in JUDGEMENTS}
        for row in read_table(FIXTURES / f"judged-{name}.tsv"):
            src, *_, tgt, judgement = row.values()
            score = translator.score(src, tgt)
            found[judgement].append(mean_probability(score.tgt_log_probs))
        separated = area(found["wrong"], found["right"] + found["understandable"])
        below = [f"{sum(p < CHECK_BELOW for p in each)} of {len(each)}" for each in found.values()]
        rows.append((name, f"{separated:.2f}", *below))
    show_table(("model", "area", *(f"{judgement}, to check" for judgement in JUDGEMENTS)), rows)


if __name__ == "__main__":
    typer.run(main)
