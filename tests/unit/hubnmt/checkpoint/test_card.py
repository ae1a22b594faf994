"""The card: the Hub can read its head, a person its body, and nothing in it was made up."""

import dataclasses
import itertools
import re
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard

from hubnmt.checkpoint.card import CardFacts, TestResult, address_card, escape_cell, write_card
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.text.metrics import Scores

SCORES = Scores(
    n=1000,
    bleu=38.257,
    bleu_signature="nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.5.1",
    chrf=61.5,
    chrf_signature="nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.5.1",
    chrf_plus_plus=59.125,
    bleu_interval=1.44,
)
RESULT = TestResult(
    name="Multi30k test_2016_flickr",
    dataset="bentrevett/multi30k",
    scores=SCORES,
    decoding=DecodingConfig(beam_size=8, length_penalty=1.2),
)
NASTY = [
    "a | b || c",
    "back\\slash \\| and pipe",
    "ends with a backslash\\",
    "<script>alert(1)</script>",
    "<img src=x onerror=y>",
    "line\nbreak",
    "line\r\nbreak",
    "carriage\rreturn",
    "| --- | --- |",
]


@pytest.fixture
def bare(tiny_config: ModelConfig) -> CardFacts:
    """Only what every model has."""
    return CardFacts(name="de-en-tiny", title="", config=tiny_config, license="apache-2.0")


@pytest.fixture
def full(bare: CardFacts) -> CardFacts:
    """Everything, with awkward samples."""
    rows = [(text, f"ref {text}", f"{text} hyp") for text in NASTY]
    return dataclasses.replace(
        bare,
        title="German to English, photo captions",
        datasets=("bentrevett/multi30k", "user/other"),
        data="Multi30k: 29,000 captions.",
        data_license="Research, non-commercial.",
        limits="Captions only.",
        bias="Guesses who people are.",
        citation="@misc{multi30k,\n  year = {2016}\n}",
        recipe="[model]\nd_model = 12\n",
        cleaning="29,000 of 29,001 pairs kept.",
        training={"machine": "one CPU core", "minutes": 7.5, "seed": 3, "git commit": None},
        pieces_per_word={"de": 1.456, "en": 1.231},
        results=(RESULT, dataclasses.replace(RESULT, name="another set")),
        good=rows[:5],
        bad=rows[5:],
    )


def read_head(card: str) -> dict[str, Any]:
    opening, head, _ = re.split(r"^---$", card, maxsplit=2, flags=re.MULTILINE)
    assert opening == ""
    values = yaml.safe_load(head)
    assert isinstance(values, dict)
    return values


def tables(card: str) -> list[list[str]]:
    """Runs of lines that begin with a pipe, as a Markdown reader divides lines."""
    lines = re.split(r"\r\n|\n|\r", card)
    groups = itertools.groupby(lines, key=lambda line: line.startswith("|"))
    return [list(group) for is_table, group in groups if is_table]


def count_cells(row: str) -> int:
    return len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) - 1


# --- the head ------------------------------------------------------------------------------------


def test_the_head_says_what_the_hub_searches_by(full: CardFacts) -> None:
    head = read_head(write_card(full))
    assert head["language"] == ["de", "en"]
    assert head["license"] == "apache-2.0"
    assert head["library_name"] == "hubnmt"
    assert head["pipeline_tag"] == "translation"
    assert "hubnmt" in head["tags"]
    assert head["datasets"] == ["bentrevett/multi30k", "user/other"]
    assert head["metrics"] == ["bleu", "chrf"]


def test_the_model_index_has_every_score_with_its_signature(full: CardFacts) -> None:
    (model,) = read_head(write_card(full))["model-index"]
    assert model["name"] == "de-en-tiny"
    assert [each["dataset"]["name"] for each in model["results"]] == [RESULT.name, "another set"]
    for each in model["results"]:
        assert each["task"]["type"] == "translation"
        assert each["dataset"]["type"] == "bentrevett/multi30k"
        bleu, chrf = each["metrics"]
        assert (bleu["type"], bleu["value"]) == ("bleu", 38.26)
        assert (chrf["type"], chrf["value"]) == ("chrf", 61.5)
        assert SCORES.bleu_signature in bleu["name"]
        assert SCORES.chrf_signature in chrf["name"]


@pytest.mark.parametrize(
    ("src_lang", "tgt_lang"), [("de", "en"), ("no", "en"), ("zxx", "no"), ("pt-BR", "zh-Hant")]
)
def test_languages_are_texts_to_yaml(src_lang: str, tgt_lang: str, bare: CardFacts) -> None:
    """Norwegian is `no`, which YAML takes for false unless it is quoted."""
    config = dataclasses.replace(bare.config, src_lang=src_lang, tgt_lang=tgt_lang)
    head = read_head(write_card(dataclasses.replace(bare, config=config, results=(RESULT,))))
    assert head["language"] == [src_lang, tgt_lang]
    (model,) = head["model-index"]
    assert model["results"][0]["task"]["name"] == f"{src_lang} to {tgt_lang}"


@pytest.mark.parametrize(
    "name", ["plain", 'quo"ted', "colon: here", "# hash", "Grüße", "നായ", "🐕", "a\\b", "- x", "1"]
)
def test_any_name_survives_the_head(name: str, bare: CardFacts) -> None:
    facts = dataclasses.replace(
        bare, name=name, results=(dataclasses.replace(RESULT, name=name, dataset=name),)
    )
    (model,) = read_head(write_card(facts))["model-index"]
    assert model["name"] == name
    assert model["results"][0]["dataset"] == {"name": name, "type": name}


def test_the_client_of_the_hub_reads_the_whole_card(full: CardFacts) -> None:
    card = ModelCard(write_card(dataclasses.replace(full, license="other")))
    values = card.data.to_dict()
    assert (values["license"], values["license_name"]) == ("other", "terms-of-the-training-data")
    assert values["license_link"] == "https://huggingface.co/datasets/bentrevett/multi30k"
    assert card.data.eval_results is not None
    first, second = card.data.eval_results[:2]
    assert (first.task_type, first.metric_type, first.metric_value) == (
        "translation",
        "bleu",
        38.26,
    )
    assert second.metric_name == f"chrF2 ({SCORES.chrf_signature})"
    assert first.dataset_type == "bentrevett/multi30k"


# --- what was not measured -----------------------------------------------------------------------


def test_what_was_not_measured_is_absent(bare: CardFacts) -> None:
    card = write_card(bare)
    head = read_head(card)
    assert {"model-index", "metrics", "datasets"} & set(head) == set()
    assert tables(card) == []
    assert "BLEU" not in card
    assert "None" not in card
    headings = [line for line in card.splitlines() if line.startswith("#")]
    assert headings == ["# de-en-tiny"]


@pytest.mark.parametrize(
    ("field", "empty", "words"),
    [
        ("results", (), ["model-index", "metrics", "## Scores", "BLEU"]),
        ("datasets", (), ["datasets:"]),
        ("pieces_per_word", {}, ["## Tokenizer"]),
        ("good", (), ["## Among its best tenth"]),
        ("bad", (), ["## Among its worst tenth"]),
        ("limits", "", ["## Limits"]),
        ("bias", "", ["## Bias"]),
        ("citation", "", ["## How to cite", "```bibtex\n@misc{multi30k,"]),
        ("license", "", ["license:"]),
        ("recipe", "", ["```toml"]),
        ("cleaning", "", ["29,001"]),
    ],
)
def test_a_section_goes_with_its_facts(
    field: str, empty: Any, words: list[str], full: CardFacts
) -> None:
    with_it, without = write_card(full), write_card(dataclasses.replace(full, **{field: empty}))
    assert [word for word in words if word not in with_it] == []
    assert [word for word in words if word in without] == []


def test_a_card_is_addressed_to_its_repository(full: CardFacts) -> None:
    card = write_card(full)
    assert 'from_pretrained("de-en-tiny")' in card
    addressed = address_card(card, "user/new")
    assert addressed == card.replace('from_pretrained("de-en-tiny")', 'from_pretrained("user/new")')
    assert address_card(addressed, "user/new") == addressed
    assert address_card("# by hand", "user/new") == "# by hand"


def test_an_interval_is_shown_only_if_it_was_computed(full: CardFacts) -> None:
    assert "| 38.26 ± 1.4 |" in write_card(full)
    scores = dataclasses.replace(SCORES, bleu_interval=None)
    plain = dataclasses.replace(full, results=(dataclasses.replace(RESULT, scores=scores),))
    assert "| 38.26 |" in write_card(plain)


# --- the body ------------------------------------------------------------------------------------


def test_scores_come_with_how_they_were_reached(full: CardFacts) -> None:
    body = write_card(full).split("\n---\n", 1)[1]
    wanted = [
        "| 1,000 | 38.26 ± 1.4 | 61.50 | 59.12 |",
        "beam 8, length penalty 1.2",
        SCORES.bleu_signature,
        SCORES.chrf_signature,
        f"{full.config.n_parameters:,} parameters",
        "1.46 in `de`, 1.23 in `en`",
        f"{full.config.tgt_vocab_size} pieces",
        'from_pretrained("de-en-tiny")',
    ]
    assert [words for words in wanted if words not in body] == []


def test_a_model_that_was_trained_further_says_from_which(full: CardFacts, bare: CardFacts) -> None:
    assert "trained from scratch with hubnmt" in write_card(full)
    assert "base_model" not in read_head(write_card(full))
    further = dataclasses.replace(bare, started_from="user/mo_del", base_model="user/mo_del")
    card = write_card(further)
    assert "trained by fine-tuning user/mo\\_del with hubnmt" in card
    assert "from scratch" not in card
    assert read_head(card)["base_model"] == "user/mo_del"
    assert "## Data\n\nFor the earlier training data and its licence, see the model card of" in card


def test_every_row_of_a_table_has_as_many_cells_as_its_head(full: CardFacts) -> None:
    card = write_card(full)
    found = tables(card)
    assert [len(table) for table in found] == [2 + 2, 2 + 5, 2 + len(NASTY) - 5]
    for table in found:
        assert {count_cells(row) for row in table} == {count_cells(table[0])}
        assert set(table[1]) <= set("|-")


@pytest.mark.parametrize("name", ["a | b", "<b>bold</b>", "two\nlines"])
def test_a_test_sets_name_does_not_break_the_table(name: str, full: CardFacts) -> None:
    card = write_card(dataclasses.replace(full, results=(dataclasses.replace(RESULT, name=name),)))
    scores = tables(card)[0]
    assert {count_cells(row) for row in scores} == {5}
    assert "<b>" not in "".join(scores)


@pytest.mark.parametrize(
    "text",
    [
        *NASTY[:5],
        "Zwei Hunde rennen, 3 > 2 & so weiter.",
        "*not bold*, **nor this**, ~~nor gone~~",
        "_Ein_ `Hund`",
        "[click](https://example.org) ![seen](https://example.org/i.png)",
        "&lt;already escaped&gt; &#42;",
    ],
)
def test_a_reader_sees_the_text_as_it_was(text: str) -> None:
    """An independent renderer turns the cell back into the very text, without any markup."""
    markdown_it = pytest.importorskip("markdown_it", reason="comes with gradio")
    markdown = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    rendered = markdown.parse(f"| x |\n|---|\n| {escape_cell(text)} |\n")
    cell = [token for token in rendered if token.type == "inline"][1]
    assert {token.type for token in cell.children} <= {"text", "text_special"}
    assert "".join(token.content for token in cell.children) == text


# --- the bundled model's -------------------------------------------------------------------------
