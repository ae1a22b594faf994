"""Training needs few libraries: from text files it runs without those of the extras."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

TRAIN_WITHOUT_EXTRAS = """
import sys
for name in ("pyarrow", "datasets", "tensorboard", "gradio", "faker", "pandas"):
    sys.modules[name] = None
import training.augment.back_translate, training.finish, training.train
sys.exit(training.train.main(sys.argv[1:]))
"""


def run_script(script: str, *arguments: str, repo: Path) -> None:
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, cwd=repo, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_text_files_are_trained_on_without_the_libraries_of_the_extras(
    farm_recipe: Path, farm_options: Callable[..., list[str]], tmp_path: Path, repo: Path
) -> None:
    options = farm_options(tmp_path, "run.max_steps=1")
    sets = [word for option in options for word in ("--set", option)]
    run_script(TRAIN_WITHOUT_EXTRAS, str(farm_recipe), *sets, repo=repo)
    assert (tmp_path / "farm" / "best" / "model.safetensors").is_file()
