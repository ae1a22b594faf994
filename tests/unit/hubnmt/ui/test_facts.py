from pathlib import Path

import pytest

from hubnmt.config import ModelConfig
from hubnmt.ui.facts import MAX_HEAD_CHARS, Score, read_facts, read_scores

CARD = """---
language: [de, en]
model-index:
- name: tiny
  results:
  - task: {type: translation}
    dataset: {name: Multi30k 2016, type: bentrevett/multi30k}
    metrics:
    - {type: bleu, value: 42.5}
    - {type: chrf, value: 61}
    - {type: wer, value: 3}
  - dataset: {name: Multi30k 2017}
    metrics: [{type: BLEU, value: 30.1}]
---
BLEU 99 in the text counts for nothing.
"""


def test_the_first_score_of_each_metric_is_read():
    assert read_scores(CARD) == (
        Score("BLEU", 42.5, "Multi30k 2016"),
        Score("chrF", 61.0, "Multi30k 2016"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no front matter",
        "---\nmodel-index: 3\n---\n",
        "---\nmodel-index: [{results: [{metrics: [{type: bleu, value: good}]}]}]\n---\n",
        "---\nmodel-index: [{results: [{metrics: [{type: bleu, value: 1000}]}]}]\n---\n",
        "---\n[unclosed\n---\n",
        "---\n!!python/object/apply:os.system [ls]\n---\n",
        "---\n" + "[" * 5000 + "\n---\n",
        "---\nnever closed: 1",
        "---\nmodel-index: [{results: [{metrics: [{type: bleu, value: .nan}]}]}]\n---\n",
        "---\ndate: 2026-99-99\n---\n",
        f"---\nlong: {'x' * MAX_HEAD_CHARS}\n{CARD[4:]}",
    ],
)
def test_a_card_without_usable_scores_has_none(text: str):
    assert read_scores(text) == ()


def test_facts_come_from_config_card_and_folder(tmp_path: Path):
    config = ModelConfig(src_lang="de", tgt_lang="en", src_vocab_size=300, tgt_vocab_size=300)
    (tmp_path / "model.safetensors").write_bytes(bytes(1_999_000))
    (tmp_path / "config.json").write_bytes(bytes(1_000))
    facts = read_facts("tiny", config, CARD, tmp_path)
    assert (facts.src_lang, facts.tgt_lang) == ("de", "en")
    assert facts.n_parameters == config.n_parameters
    assert facts.size_mb == 2.0
    assert facts.scores[0].value == 42.5


def test_without_folder_and_card_the_config_is_all_there_is():
    config = ModelConfig(src_lang="de", tgt_lang="en", src_vocab_size=300, tgt_vocab_size=300)
    facts = read_facts("user/name", config, "", None)
    assert facts.size_mb is None
    assert facts.scores == ()
