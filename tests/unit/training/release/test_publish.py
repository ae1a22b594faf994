"""Publishing a run: what was measured stands in the card, once, and nothing else is touched."""

import shlex
from pathlib import Path
from typing import Any

from training.config.data import DataConfig
from training.release.publish import last_lines


def make_data(**values: Any) -> DataConfig:
    return DataConfig.from_dict(
        {"src_lang": "de", "tgt_lang": "en", "dataset": "user/name"} | values
    )


def test_the_last_lines_name_all_files_in_words_that_a_shell_keeps_together() -> None:
    data = make_data(valid=["v.tsv", "w.tsv.gz"], test=["a b/t.de.gz", "a b/t.en.gz", "u.jsonl"])
    commands = [shlex.split(line) for line in last_lines(Path("my runs/x"), data, None)]
    (finish,) = (words for words in commands if "training.finish" in words)
    valid, test = ["--valid", "v.tsv,w.tsv.gz"], ["--test", "a b/t.de.gz,a b/t.en.gz"]
    names = [["--test-name", "a b/t"], ["--test-name", "u"]]
    said = [*valid, *test, *names[0], "--test", "u.jsonl", *names[1]]
    assert finish[3:] == ["my runs/x", "models/x", *said]
    assert ["hubnmt", "push", "my runs/x/best", "USER/x", "--private"] in commands
