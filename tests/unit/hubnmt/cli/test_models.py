"""`inspect` tells the truth about a model; `export` never writes into a folder that is used."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import hubnmt
from hubnmt import Translator

Run = Callable[..., str]


@pytest.mark.parametrize("name", ["de-en-multi30k", "en-ml"])
def test_an_exported_folder_works_alone(name: str, run: Run, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    assert run("export", name, tmp_path / "out", "--to", "ctranslate2") == f"{tmp_path / 'out'}\n"
    readme = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    absent = "import sys; sys.modules.update(hubnmt=None, torch=None)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"{absent}\n{code}"],
        cwd=tmp_path / "out",
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    (src,) = re.findall(r"""encode\(['"](.*?)['"]\)""", code)
    translation = Translator.from_pretrained(name).translate(src)
    assert (done.stdout, done.stderr) == (f"{translation.text}\n", "")


def test_inspect_tells_what_a_model_is(model: str, run: Run, tiny_config: Any) -> None:
    facts = json.loads(run("inspect", model, "--json"))
    assert facts["model"] == {"name": model, "folder": model, "weights": "float32"}
    assert facts["versions"]["hubnmt"] == hubnmt.__version__
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["config"]["d_model"] == 12
    assert facts["decoding"]["beam_size"] == 2
    assert facts["tokenizer"]["round trip"] == "exact"
    assert facts["translation"]["text"]
    parts = facts["parameters"]
    total = parts.pop("total")
    assert sum(parts.values()) == total == tiny_config.n_parameters
