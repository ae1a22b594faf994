"""The example of the document translates a corpus on a local Ray of two cores."""

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from hubnmt import Translator
from tests.integration.test_readme import find_snippets


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ray_data_translates_a_corpus(bundled_model: Path, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    texts = [f"Ein Hund rennt mit {n} Kindern im Schnee." for n in range(40)]
    for part in range(2):
        rows: list[str | None] = [*texts[part * 20 : part * 20 + 20], None]
        frame = pd.DataFrame({"part": part, "id": range(21), "text": rows})
        frame.to_parquet(tmp_path / "corpus" / f"{part}.parquet")
    (code,) = [each.text for each in find_snippets("hubnmt/docs/scale.md") if "ray" in each.text]
    code = code.replace('"de-en"', repr(str(bundled_model))).replace("num_cpus=4", "num_cpus=1")
    start = "import ray; ray.init('local', num_cpus=2, include_dashboard=False)\n"
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    subprocess.run([sys.executable, "-c", start + code], check=True, cwd=tmp_path, env=environment)
    found = pd.read_parquet(tmp_path / "translated").sort_values(["part", "id"])
    expected = [each.text for each in Translator.from_pretrained(bundled_model)(texts, beam_size=5)]
    translations = list(found["translation"].fillna(""))
    assert translations == [*expected[:20], "", *expected[20:], ""]
