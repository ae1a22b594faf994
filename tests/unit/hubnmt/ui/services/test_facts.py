from pathlib import Path

from hubnmt.config import ModelConfig
from hubnmt.ui.services.registry import read_facts

CARD = """---
model-index:
- results:
  - dataset: {name: Multi30k test}
    metrics: [{type: bleu, value: 42.5}]
  - dataset: {name: Tatoeba test}
    metrics: [{type: bleu, value: 20}]
---
"""


def test_facts_come_from_config_card_and_folder(tmp_path: Path):
    config = ModelConfig(src_lang="de", tgt_lang="en", src_vocab_size=300, tgt_vocab_size=300)
    (tmp_path / "model.safetensors").write_bytes(bytes(1_999_000))
    (tmp_path / "config.json").write_bytes(bytes(1_000))
    facts = read_facts("tiny", config, CARD, tmp_path)
    assert (facts.src_lang, facts.tgt_lang) == ("de", "en")
    assert facts.n_parameters == config.n_parameters
    assert facts.size_mb == 2.0
    assert facts.scores[0].value == 42.5
    assert facts.measured_on == "Multi30k test"


def test_without_folder_and_card_the_config_is_all_there_is():
    config = ModelConfig(src_lang="de", tgt_lang="en", src_vocab_size=300, tgt_vocab_size=300)
    facts = read_facts("user/name", config, "", None)
    assert facts.size_mb is None
    assert facts.scores == ()
    assert facts.measured_on == ""
