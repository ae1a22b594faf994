"""Generate a model card with YAML metadata from the recipe and measured results.

Fields without a value are omitted. Format: https://huggingface.co/docs/hub/model-cards
"""

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hubnmt.checkpoint.files import CARD, LIBRARY, load_config
from hubnmt.checkpoint.metadata import read_card
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
    """Hub identifier of the licence."""
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
    # 1. Format the facts.
    config, start = facts.config, escape_cell(facts.started_from)
    earlier = "For the earlier training data and its licence, see the model card of"
    recorded = [f"- {key}: {value}" for key, value in facts.training.items() if value is not None]
    ratios = [f"{value:.2f} in `{language}`" for language, value in facts.pieces_per_word.items()]
    is_bibtex = facts.citation.lstrip().startswith("@")
    # 2. Arrange them in sections.
    sections = {
        "Scores": _scores(facts.results),
        "Data": [
            facts.data,
            facts.data_license,
            facts.cleaning,
            start and f"{earlier} {start}.",
        ],
        "Training": ["\n".join(recorded), _fence("toml", facts.recipe)],
        "Tokenizer": [
            f"Byte-level BPE, {config.tgt_vocab_size:,} pieces. Pieces per word on validation "
            f"text: {', '.join(ratios)}."
        ]
        if ratios
        else [],
        "Among its best tenth": _samples(facts.good),
        "Among its worst tenth": _samples(facts.bad),
        "Limits": [facts.limits],
        "Bias": [facts.bias],
        "How to cite": [_fence("bibtex", facts.citation) if is_bibtex else facts.citation],
    }
    # 3. Write the metadata and how to use the model, then the sections that are not empty.
    usage = (
        "from hubnmt import Translator\n\n"
        f'translator = Translator.from_pretrained("{facts.name}")\n'
        'print(translator.translate("...").text)'
    )
    paragraphs = [
        _head(facts),
        f"# {facts.title or facts.name}",
        f"`{config.src_lang}` to `{config.tgt_lang}`, {config.n_parameters:,} parameters, trained "
        f"{f'by fine-tuning {start}' if start else 'from scratch'} with hubnmt.",
        "Install hubnmt with `pip install .` in a checkout of hubnmt, then:",
        _fence("python", usage),
    ]
    for title, texts in sections.items():
        if any(texts):
            paragraphs += [f"## {title}", *filter(None, texts)]
    return "\n\n".join(paragraphs) + "\n"


def _fence(language: str, code: str) -> str:
    return f"```{language}\n{code.strip()}\n```" if code else ""


def _head(facts: CardFacts) -> str:
    languages = [facts.config.src_lang, facts.config.tgt_lang]
    results = [_index_entry(result, languages) for result in facts.results]
    is_other = facts.license == "other"  # for which the Hub asks for a name and a link
    pages = [f"https://huggingface.co/datasets/{name}" for name in facts.datasets]
    values = {
        "language": languages,
        "license": facts.license,
        "license_name": "terms-of-the-training-data" if is_other else "",
        "license_link": next(iter(pages), "") if is_other else "",
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
    return f"---\n{yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=math.inf)}---"


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


def _scores(results: Sequence[TestResult]) -> list[str]:
    rows, notes = [], []
    for result in results:
        s, name = result.scores, escape_cell(result.name)
        interval = "" if s.bleu_interval is None else f" ± {s.bleu_interval:.1f}"
        bleu, chrf, plus = f"{s.bleu:.2f}{interval}", f"{s.chrf:.2f}", f"{s.chrf_plus_plus:.2f}"
        rows.append([name, f"{s.n:,}", bleu, chrf, plus])
        signature = s.chrf_plus_plus_signature
        notes.append(
            f"{name}: beam {result.decoding.beam_size}, length penalty "
            f"{result.decoding.length_penalty}; BLEU `{s.bleu_signature}`, "
            f"chrF2 `{s.chrf_signature}`{f', chrF2++ `{signature}`' if signature else ''}."
        )
    explain = (
        "Cased, detokenised, one reference; ± is half the 95 % bootstrap interval. Measured with "
        "`hubnmt evaluate --no-guard --no-split`, without a second search."
    )
    columns = ["test set", "lines", "BLEU", "chrF2", "chrF2++"]
    return [_table(columns, rows), "\n".join([explain, *notes])] if results else []


def _samples(rows: Sequence[tuple[str, str, str]]) -> list[str]:
    table = _table(["source", "reference", "translation"], [[*map(escape_cell, r)] for r in rows])
    return ["From the validation set, selected by sentence-level chrF.", table] if rows else []


def _table(columns: list[str], rows: Sequence[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


FORM = ("Data", "Limits")
"""Sections that `read_form` and `fill_form` know beside the licence."""
_LICENSE = r"(?m)^license: (.+)$"


def _section(title: str) -> str:
    return rf"(?ms)^## {title}\n+(.*?)\n*(?=^## |\Z)"


def read_form(folder: Path) -> list[str]:
    """Return the licence and the sections `FORM` of a model's card; empty where there are none."""
    card = read_card(folder)
    found = [re.search(pattern, card) for pattern in (_LICENSE, *map(_section, FORM))]
    return [match[1] if match else "" for match in found]


def fill_form(folder: Path, license: str, *sections: str) -> None:
    """Write the licence and the sections `FORM` into a model's card, which is made if missing.

    Raises:
        ModelFolderError: if the folder contains no model.
    """
    name = folder.name
    facts = CardFacts(name=name, title=name, config=load_config(folder), license=license)
    card = read_card(folder) or write_card(facts)
    if license != read_form(folder)[0]:
        card = re.sub(r"(?m)^license(_name|_link)?: .*\n", "", card)
        added = re.findall(r"(?m)^license.*\n", _head(facts))
        card = card.replace("---\n", f"---\n{''.join(added)}", 1)
    for title, text in zip(FORM, sections, strict=True):
        section = f"## {title}\n\n{text.strip()}\n\n" if text.strip() else ""
        match = re.search(_section(title), card)
        card = card.replace(match[0], section, 1) if match else f"{card.rstrip()}\n\n{section}"
    (folder / CARD).write_text(f"{card.rstrip()}\n", encoding="utf-8")


MARKUP = re.compile(r"([\\`*_\[\]|~])")


def escape_cell(text: str) -> str:
    """Escape a text for a Markdown table cell, on one line."""
    line = " ".join(text.splitlines()).replace("&", "&amp;").replace("<", "&lt;")
    return MARKUP.sub(r"\\\1", line)
