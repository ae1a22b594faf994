"""Which measure separates wrong translations from right ones.

    python tests/benchmarks/check.py [MODEL ...]

For the translations of `tests/fixtures/judged-MODEL.tsv`, judged by hand, prints the area under the
ROC curve of each measure, wrong against the others: 0.5 says nothing, 1 separates them; and the
shares of sentences whose mean token probability is below `CHECK_BELOW`. Asserts nothing.
"""

import math
from typing import Annotated

import torch
import typer
from tables import FIXTURES, read_table

from hubnmt import Translator
from hubnmt.types import CHECK_BELOW

MODELS = ["de-en", "en-de", "en-fr", "fr-en", "en-ml"]
JUDGEMENTS = ("right", "understandable", "wrong")


def measure(
    translator: Translator, back: Translator | None, src: str, tgt: str
) -> dict[str, float]:
    """Return the measures of one translation; each is higher for a better one."""
    log_probs = translator.score(src, tgt).tgt_log_probs
    maps = translator.attend(src, tgt)
    words = maps.shifted(maps.alignment_shift).by_word()
    weights = (
        words.cross.mean((0, 1))
        if maps.alignment_head is None
        else words.cross[maps.alignment_head]
    )
    covered = [
        weights[:, column].sum().item()
        for column, token in enumerate(words.src.tokens)
        if not words.src.is_special(column) and any(map(str.isalnum, token))
    ]
    found = {
        "mean token probability": math.exp(sum(log_probs) / len(log_probs)),
        "least token probability": math.exp(min(log_probs)),
        "length": -abs(math.log(len(tgt) / len(src))),
        "least coverage of a word": min(covered),
    }
    if back:
        log_probs = back.score(tgt, src).tgt_log_probs
        found["way back"] = sum(log_probs) / len(log_probs)
    return found


def area(wrong: list[float], others: list[float]) -> float:
    """Return the probability that a wrong translation has the lower value (ties count half)."""
    lower, higher = torch.tensor(wrong)[:, None], torch.tensor(others)[None, :]
    return ((lower < higher).float() + 0.5 * (lower == higher).float()).mean().item()


def main(models: Annotated[list[str], typer.Argument()] = MODELS) -> None:
    """Print the areas and shares of each model."""
    for name in models:
        translator, reverse = Translator.from_pretrained(name), "-".join(name.split("-")[::-1])
        back = Translator.from_pretrained(reverse)
        rows = [list(row.values()) for row in read_table(FIXTURES / f"judged-{name}.tsv")]
        found = [(row[-1], measure(translator, back, row[0], row[-2])) for row in rows]
        counts = ", ".join(f"{n} {sum(judged == n for judged, _ in found)}" for n in JUDGEMENTS)
        print(f"{name}: {counts}")
        for key in found[0][1]:
            wrong = [values[key] for judged, values in found if judged == "wrong"]
            others = [values[key] for judged, values in found if judged != "wrong"]
            print(f"  {key:26} {area(wrong, others):.2f}")
        for judged in JUDGEMENTS:
            low = [v["mean token probability"] < CHECK_BELOW for j, v in found if j == judged]
            print(f"  to check, {judged:16} {sum(low) / max(len(low), 1):.0%}")


if __name__ == "__main__":
    typer.run(main)
