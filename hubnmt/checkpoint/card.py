"""Generate a model card with YAML metadata from the recipe and measured results.

Fields without a value are omitted. Format: https://huggingface.co/docs/hub/model-cards
"""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from hubnmt.checkpoint.description import LIBRARY
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.text.metrics import Scores


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class TestResult:
    """Scores on one test set, with the decoding options used."""

    __test__ = False  # not a pytest class

    name: str
    """Display name, such as `Multi30k test_2016_flickr`."""
    dataset: str
    """Hub name of the dataset, for the model index."""
    scores: Scores
    decoding: DecodingConfig


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CardFacts:
    """Contents of a model card."""

    name: str
    """Name of the model folder."""
    title: str
    config: ModelConfig
    license: str = ""
    """Hub identifier of the licence; with `other`, its name and its URL follow."""
    license_name: str = ""
    license_link: str = ""
    datasets: tuple[str, ...] = ()
    """Hub names of the training data."""
    data: str = ""
    data_license: str = ""
    limits: str = ""
    bias: str = ""
    citation: str = ""
    """BibTeX or a sentence."""
    recipe: str = ""
    """Resolved recipe in TOML."""
    cleaning: str = ""
    """One-line summary of data cleaning."""
    started_from: str = ""
    """Model that was fine-tuned; empty if trained from scratch."""
    base_model: str = ""
    """Hub name of that model, if it has one."""
    training: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Recorded hardware, duration, steps, seed, versions and command."""
    pieces_per_word: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Language to mean number of tokens per white-space-separated word."""
    results: Sequence[TestResult] = ()
    good: Sequence[tuple[str, str, str]] = ()
    """(source, reference, translation) of some of the best validation sentences."""
    bad: Sequence[tuple[str, str, str]] = ()


def write_card(facts: CardFacts) -> str:
    """Return the model card in Markdown."""
    start = escape_cell(facts.started_from)
    origin = f"by fine-tuning {start}" if start else "from scratch"
    earlier = "For the earlier training data and its licence, see the model card of"
    sections = [
        _head(facts),
        f"# {facts.title or facts.name}\n",
        f"`{facts.config.src_lang}` to `{facts.config.tgt_lang}`, "
        f"{facts.config.n_parameters:,} parameters, trained {origin} with hubnmt.\n",
        _usage(facts),
        _scores(facts),
        _section(
            "Data",
            [facts.data, facts.data_license, facts.cleaning, start and f"{earlier} {start}."],
        ),
        _training(facts),
        _tokenizer(facts),
        _samples("Among its best tenth", facts.good),
        _samples("Among its worst tenth", facts.bad),
        _section("Limits", [facts.limits]),
        _section("Bias", [facts.bias]),
        _section("How to cite", [_citation(facts.citation)]),
    ]
    return "\n".join(section for section in sections if section)


def _head(facts: CardFacts) -> str:
    languages = [facts.config.src_lang, facts.config.tgt_lang]
    results = [_index_entry(result, languages) for result in facts.results]
    values = {
        "language": languages,
        "license": facts.license,
        **_other_license(facts),
        "library_name": LIBRARY,
        "pipeline_tag": "translation",
        "tags": [LIBRARY, "translation"],
        "base_model": facts.base_model,
        "datasets": list(facts.datasets),
        "metrics": ["bleu", "chrf"] if results else [],
        "model-index": [{"name": facts.name, "results": results}] if results else [],
    }
    kept = {key: value for key, value in values.items() if value}
    # Quotes `no` (Norwegian), which would be read as false.
    return f"---\n{yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=math.inf)}---\n"


def _other_license(facts: CardFacts) -> dict[str, str]:
    """Return the fields that the Hub asks for with `license: other`."""
    if facts.license != "other":
        return {}
    first = next(iter(facts.datasets), "")
    page = f"https://huggingface.co/datasets/{first}" if first else ""
    return {
        "license_name": facts.license_name or "terms-of-the-training-data",
        "license_link": facts.license_link or page,
    }


def _index_entry(result: TestResult, languages: Sequence[str]) -> dict[str, Any]:
    s = result.scores
    return {
        "task": {"type": "translation", "name": " to ".join(languages)},
        "dataset": {"name": result.name, "type": result.dataset},
        "metrics": [
            {"type": "bleu", "name": f"BLEU ({s.bleu_signature})", "value": round(s.bleu, 2)},
            {"type": "chrf", "name": f"chrF2 ({s.chrf_signature})", "value": round(s.chrf, 2)},
        ],
    }


def _usage(facts: CardFacts) -> str:
    return (
        "Install hubnmt with `pip install .` in a checkout of hubnmt, then:\n\n"
        "```python\nfrom hubnmt import Translator\n\n"
        f'translator = Translator.from_pretrained("{facts.name}")\n'
        'print(translator.translate("...").text)\n```\n'
    )


def _scores(facts: CardFacts) -> str:
    if not facts.results:
        return ""
    rows = ["## Scores\n", "| test set | lines | BLEU | chrF2 | chrF2++ |", "|---|---|---|---|---|"]
    notes = []
    for result in facts.results:
        s = result.scores
        interval = "" if s.bleu_interval is None else f" ± {s.bleu_interval:.1f}"
        rows.append(
            f"| {escape_cell(result.name)} | {s.n:,} | {s.bleu:.2f}{interval} | {s.chrf:.2f} "
            f"| {s.chrf_plus_plus:.2f} |"
        )
        plus = s.chrf_plus_plus_signature
        notes.append(
            f"{escape_cell(result.name)}: beam {result.decoding.beam_size}, length penalty "
            f"{result.decoding.length_penalty}; BLEU `{s.bleu_signature}`, "
            f"chrF2 `{s.chrf_signature}`{f', chrF2++ `{plus}`' if plus else ''}."
        )
    explain = (
        "Cased, detokenised, one reference; ± is half the 95 % bootstrap interval. Measured with "
        "`hubnmt evaluate --no-guard --no-split`, without fallback decoding."
    )
    return "\n".join([*rows, "", explain, *notes, ""])


def _citation(citation: str) -> str:
    if citation.lstrip().startswith("@"):
        return f"```bibtex\n{citation.strip()}\n```"
    return citation


def address_card(card: str, repo: str) -> str:
    """Replace the model name in the usage example by the Hub repository."""
    return re.sub(r'(?<=from_pretrained\(")[^"\n]*(?="\))', lambda _: repo, card, count=1)


def _section(title: str, paragraphs: Sequence[str]) -> str:
    kept = [paragraph for paragraph in paragraphs if paragraph]
    return f"## {title}\n\n" + "\n\n".join(kept) + "\n" if kept else ""


def _training(facts: CardFacts) -> str:
    lines = [f"- {key}: {value}" for key, value in facts.training.items() if value is not None]
    recipe = f"```toml\n{facts.recipe.strip()}\n```" if facts.recipe else ""
    return _section("Training", ["\n".join(lines), recipe])


def _tokenizer(facts: CardFacts) -> str:
    if not facts.pieces_per_word:
        return ""
    ratios = ", ".join(f"{value:.2f} in `{lang}`" for lang, value in facts.pieces_per_word.items())
    size = facts.config.tgt_vocab_size
    return _section(
        "Tokenizer",
        [f"Byte-level BPE, {size:,} pieces. Pieces per word on validation text: {ratios}."],
    )


def _samples(title: str, rows: Sequence[tuple[str, str, str]]) -> str:
    if not rows:
        return ""
    table = ["| source | reference | translation |", "|---|---|---|"]
    table += ["| " + " | ".join(map(escape_cell, row)) + " |" for row in rows]
    note = "From the validation set, selected by sentence-level chrF."
    return _section(title, [note, "\n".join(table)])


MARKUP = re.compile(r"([\\`*_\[\]|~])")


def escape_cell(text: str) -> str:
    """Escape a text for a Markdown table cell, on one line."""
    line = " ".join(text.splitlines()).replace("&", "&amp;").replace("<", "&lt;")
    return MARKUP.sub(r"\\\1", line)
