"""The card: the Hub can read its head, a person its body, and nothing in it was made up."""

import dataclasses
from pathlib import Path

import pytest
from huggingface_hub import ModelCard

from hubnmt.checkpoint.card import CardFacts, fill_form, read_form, write_card
from hubnmt.checkpoint.metadata import check_metadata, read_metadata
from hubnmt.config import ModelConfig
from tests.hub import RESULT

NASTY = ["a | b || c", "back\\slash \\| and pipe", "ends with a backslash\\"]
NASTY += ["<script>alert(1)</script>", "line\nbreak", "line\r\nbreak", "| --- | --- |"]
NASTY += ["3 > 2 & so weiter.", "*not bold*, **nor this**, ~~nor gone~~", "&lt;escaped&gt; &#42;"]
NASTY += ["[click](https://example.org) ![seen](https://example.org/i.png)"]


@pytest.fixture
def full(tiny_config: ModelConfig) -> CardFacts:
    """Everything, with awkward samples."""
    rows = [(text, f"ref {text}", f"{text} hyp") for text in NASTY]
    return CardFacts(
        name="de-en-tiny",
        config=tiny_config,
        license="other",
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


def test_the_client_of_the_hub_reads_the_whole_card(full: CardFacts) -> None:
    """Norwegian is `no`, which YAML takes for false unless it is quoted."""
    config = dataclasses.replace(full.config, src_lang="no")
    card = ModelCard(write_card(dataclasses.replace(full, config=config)))
    values = card.data.to_dict()
    assert values["language"] == ["no", "en"]
    assert (values["license"], values["license_name"]) == ("other", "terms-of-the-training-data")
    assert values["license_link"] == "https://huggingface.co/datasets/bentrevett/multi30k"
    assert card.data.eval_results is not None
    first, second = card.data.eval_results[:2]
    assert (values["library_name"], values["pipeline_tag"]) == ("hubnmt", "translation")
    assert values["datasets"] == ["bentrevett/multi30k", "user/other"]
    assert (first.task_name, first.metric_type, first.metric_value) == ("no to en", "bleu", 41.25)
    assert RESULT.scores.bleu_signature in first.metric_name
    assert second.metric_name == f"chrF2 ({RESULT.scores.chrf_signature})"
    assert first.dataset_type == "bentrevett/multi30k"


def test_a_model_that_was_trained_further_says_from_which(full: CardFacts) -> None:
    assert "trained from scratch with hubnmt" in write_card(full)
    assert "base_model" not in write_card(full)
    further = dataclasses.replace(full, started_from="user/mo_del", base_model="user/mo_del")
    card = write_card(further)
    assert "trained by fine-tuning user/mo\\_del with hubnmt" in card
    assert "from scratch" not in card
    assert "base_model: user/mo_del\n" in card
    assert "For the earlier training data and its licence, see the model card of" in card


def test_a_reader_sees_the_samples_as_they_were(full: CardFacts) -> None:
    """An independent renderer turns the cells back into the texts, without any markup."""
    markdown_it = pytest.importorskip("markdown_it", reason="comes with gradio")
    markdown = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    card = write_card(full)
    tokens = markdown.parse(card[card.index("## Among its best tenth") :])
    kinds = {child.type for token in tokens for child in token.children or ()}
    assert kinds <= {"text", "text_special", "softbreak"}
    cells = ["".join(c.content for c in each.children) for each in tokens if each.level == 4]
    rows = [text for row in (*full.good, *full.bad) for text in row]
    seen = [" ".join(cell.split()) for cell in cells]
    assert [each for each in rows if " ".join(each.split()) not in seen] == []


def test_the_form_changes_licence_data_and_limits_alone(model_folder: Path):
    path = model_folder / "README.md"
    card = path.read_text()
    fill_form(model_folder, *read_form(model_folder))
    assert path.read_text() == card
    fill_form(model_folder, "cc-by-4.0", "My class.\n\nCC BY 4.0.", "Small talk.")
    assert read_form(model_folder) == ["cc-by-4.0", "My class.\n\nCC BY 4.0.", "Small talk."]
    metadata = read_metadata(path.read_text())
    assert "license_name" not in metadata
    assert metadata["datasets"] == read_metadata(card)["datasets"]
    path.unlink()
    fill_form(model_folder, "other", "", "")
    check_metadata(path.read_text())
    assert read_form(model_folder) == ["other", "", ""]
