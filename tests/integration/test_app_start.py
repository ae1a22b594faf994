"""`python app.py`, started as a shell would, where not every folder can be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

IS_ROOT = os.name == "posix" and os.geteuid() == 0
AS_A_USER = ["setpriv", "--bounding-set=-dac_override"] if IS_ROOT else []
"""Root may write everywhere; without this right it is stopped as any user is."""


@pytest.mark.skipif(IS_ROOT and not shutil.which("setpriv"), reason="root may write everywhere")
def test_an_upload_folder_of_another_user_is_one_line_before_serving(
    repo: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """Gradio's own folder for uploads, /tmp/gradio, is the first user's."""
    (tmp_path / "gradio").mkdir(mode=0o555)
    environment.pop("GRADIO_TEMP_DIR", None)
    done = subprocess.run(
        [*AS_A_USER, sys.executable, "app.py", "--model", "de-en-multi30k", "--port", "0"],
        cwd=repo,
        env=environment | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(repo)},
        capture_output=True,
        encoding="utf-8",
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{tmp_path / 'gradio'} cannot be written" in done.stderr
    assert "set GRADIO_TEMP_DIR" in done.stderr
