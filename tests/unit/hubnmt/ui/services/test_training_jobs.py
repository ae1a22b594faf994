import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hubnmt.errors import ConfigError, InputError
from hubnmt.ui.services.training_jobs import ALIVE, SAMPLE, Job, TrainingJobs

RECIPE = """[run]
name = "{name}"
max_steps = 60
eval_every = 20
log_every = 5
save_every = 20
n_threads = 1
seed = 3

[data]
src_lang = "de"
tgt_lang = "en"
train = ["{data}/train.tsv"]
valid = ["{data}/valid.tsv"]
valid_limit = 20

[tokenizer]
vocab_size = 300

[model]
d_model = 32
n_heads = 2
d_ff = 32
n_encoder_layers = 1
n_decoder_layers = 1
share_embeddings = true

[optimizer]
batch_tokens = 256
"""


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[TrainingJobs]:
    jobs = TrainingJobs(tmp_path)
    yield jobs
    for job in jobs.list():
        jobs.pause(job.name)
        _until(jobs, job.name, lambda job: job.state not in ALIVE)


def test_the_licence_of_the_sample_set_is_that_of_its_contents(jobs: TrainingJobs, tmp_path: Path):
    other = tmp_path / SAMPLE.name
    lines = SAMPLE.read_text(encoding="utf-8").split("\n")[:50]
    other.write_text("\n".join(lines), encoding="utf-8")
    recipes = [jobs.prepare(str(file), minutes=3)[2] for file in (SAMPLE, other)]
    assert ["CC BY 2.0 FR" in recipe for recipe in recipes] == [True, False]


def _until(jobs: TrainingJobs, name: str, is_so: Callable[[Job], bool]) -> Job:
    end = time.monotonic() + 120
    while not is_so(job := jobs.read(name)):
        assert time.monotonic() < end, job
        time.sleep(0.1)
    return job


def test_a_paused_run_continues_bit_for_bit_and_a_second_one_waits(jobs: TrainingJobs):
    data, report, _ = jobs.prepare(str(SAMPLE))
    assert 1700 < report["n_train"] <= 1800
    whole, parts = (jobs.start(RECIPE.format(name="run", data=data)) for _ in range(2))
    assert (whole, parts) == ("run", "run-2")
    assert jobs.read(parts).state == "waiting"
    _until(jobs, parts, lambda job: job.state == "training")
    restarted = TrainingJobs(jobs.folder)  # the page was restarted
    assert {job.name for job in restarted.list()} == {whole, parts}
    with pytest.raises(InputError, match="running"):
        restarted.delete(parts)
    restarted.pause(parts)
    _until(jobs, parts, lambda job: job.state == "paused")
    restarted.resume(parts)
    for name in (whole, parts):
        _until(jobs, name, lambda job: job.state == "finished")
    a, b = (jobs.folder / name / "best" / "model.safetensors" for name in (whole, parts))
    assert a.read_bytes() == b.read_bytes()
    names = [name for name, *_ in jobs.read(parts).scores()]
    assert names == ["this model, at its best", "copying the source"]
    maps = (jobs.folder / parts / "attention.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in maps] == [20, 40, 60]
    jobs.resume(parts, "--set", "run.max_steps=2000")
    _until(jobs, parts, lambda job: job.state == "training")
    jobs.finish(parts)
    assert _until(jobs, parts, lambda job: job.state not in ALIVE).state == "finished"
    jobs.delete(whole)
    assert Path(data).is_dir()  # the other run uses it
    jobs.delete(parts)
    assert not Path(data).exists()
    with pytest.raises(InputError, match="import them again"):
        jobs.prepare(data=data, minutes=3)


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_nothing_starts_where_room_is_short(
    jobs: TrainingJobs, kind: str, monkeypatch: pytest.MonkeyPatch
):
    few: Any = SimpleNamespace(free=2**20, available=2**20)
    name = {"disk": "shutil.disk_usage", "memory": "psutil.virtual_memory"}[kind]
    monkeypatch.setattr(name, lambda *_: few)
    with pytest.raises(ConfigError, match=f"only 1 MiB of {kind} are free"):
        jobs.start(RECIPE.format(name="big", data="nowhere"))
    assert jobs.list() == []


def test_a_run_that_fails_shows_the_line_of_the_command(jobs: TrainingJobs, tmp_path: Path):
    jobs.start(RECIPE.format(name="lost", data=tmp_path / "nowhere"))
    job = _until(jobs, "lost", lambda job: job.state not in ALIVE)
    assert job.state == "failed"
    assert "nowhere" in job.message


def test_a_process_that_is_no_run_is_never_signalled(jobs: TrainingJobs, tmp_path: Path):
    (tmp_path / "old").mkdir()
    status = {"pid": os.getpid(), "state": "training"}
    (tmp_path / "old" / "status.json").write_text(json.dumps(status))
    jobs.pause("old")  # the number belongs to this process now, which trains nothing
    assert jobs.read("old").state == "paused"


@pytest.mark.parametrize("name", ["../out", "a/b", "", ".data"])
def test_a_run_stays_in_its_folder(jobs: TrainingJobs, name: str):
    with pytest.raises(ConfigError, match="must be a word"):
        jobs.start(f"[run]\nname = {json.dumps(name)}")
    with pytest.raises(InputError, match="no run"):
        jobs.delete(name)
