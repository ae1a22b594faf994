"""A corpus is translated on a local Ray of two cores, whose processes are killed meanwhile."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from ray.exceptions import RayActorError
from starlette.requests import Request

from hubnmt.__main__ import main

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

N_SHARDS = 8
LINES_PER_SHARD = int(os.environ.get("HUBNMT_RAY_LINES", "2000")) // N_SHARDS
CLUSTER = """
import ray
ray.init("local", num_cpus=2, include_dashboard=False)
print(ray.get_runtime_context().gcs_address, flush=True)
input()
"""


@pytest.fixture(scope="module")
def ray_environment() -> dict[str, str]:
    """Offline, with a token for all; Ray's workers would give way to every other process."""
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    quiet = {"HF_HUB_OFFLINE": "1", "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
    return {**os.environ, **quiet, **token}


@pytest.fixture(scope="module")
def cluster(ray_environment: dict[str, str]) -> Iterator[tuple[str, psutil.Process]]:
    """The address of a Ray of two cores, and the process that has its workers below it."""
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ray_environment,
        text=True,
    ) as process:
        assert process.stdout
        yield process.stdout.readline().strip(), psutil.Process(process.pid)
        process.communicate("\n", timeout=60)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory, repo: Path) -> Path:
    """Shards of captions, with one line that is not text."""
    folder = tmp_path_factory.mktemp("corpus")
    captions = (repo / "tests" / "fixtures" / "captions.de").read_text("utf-8").splitlines()
    for shard in range(N_SHARDS):
        numbers = range(shard * LINES_PER_SHARD, (shard + 1) * LINES_PER_SHARD)
        lines = [f"{captions[n % len(captions)]} {n}".encode() for n in numbers]
        if shard == N_SHARDS - 1:  # translated last
            lines[6] = b"\xff\xfe"
        (folder / f"{shard}.txt").write_bytes(b"\n".join(lines) + b"\n")
    return folder


@pytest.fixture(scope="module")
def expected(bundled_model: Path, corpus: Path) -> dict[str, str]:
    """What `hubnmt translate` makes of each shard."""
    found = {}
    for shard in sorted(corpus.iterdir()):
        lines = shard.read_bytes().replace(b"\xff\xfe", b"").decode()
        source, target = corpus.parent / "source", corpus.parent / "target"
        source.write_text(lines, "utf-8")
        arguments = ["--input", str(source), "--output", str(target), "--overwrite"]
        assert main(["translate", *arguments, *settings(bundled_model)]) == 0
        found[shard.name] = target.read_text("utf-8")
    return found


def settings(model: Path) -> list[str]:
    return ["--model", str(model), "--beam-size", "1", "--max-new-tokens", "12"]


@pytest.fixture
def start(
    cluster: tuple[str, psutil.Process],
    corpus: Path,
    bundled_model: Path,
    ray_environment: dict[str, str],
) -> Callable[[Path], subprocess.Popen[str]]:
    def start(output: Path) -> subprocess.Popen[str]:
        address, _ = cluster
        arguments = ["--input", f"{corpus}/*.txt", "--output", str(output), "--ray", address]
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "hubnmt", "translate", "--ray-actors", "2"),
                *(*arguments, *settings(bundled_model)),
            ],
            stderr=subprocess.PIPE,
            env=ray_environment,
            text=True,
        )

    return start


def wait_for_files(output: Path, n: int, driver: subprocess.Popen[str]) -> None:
    while driver.poll() is None and len(list(output.glob("*.txt"))) < n:
        time.sleep(0.05)


def read(output: Path) -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in output.iterdir()}


def test_driver_and_actor_are_killed_and_nothing_is_lost_or_doubled(
    start: Callable[[Path], subprocess.Popen[str]],
    cluster: tuple[str, psutil.Process],
    expected: dict[str, str],
    tmp_path: Path,
) -> None:
    """The second run translates only what is missing."""
    output = tmp_path / "out"
    with start(output) as driver:
        wait_for_files(output, 2, driver)
        driver.send_signal(signal.SIGKILL)
    before = {path: path.stat().st_mtime_ns for path in output.glob("*.txt")}
    assert 2 <= len(before) < N_SHARDS
    with start(output) as driver:
        wait_for_files(output, len(before) + 1, driver)
        actor = next(
            child
            for child in cluster[1].children(recursive=True)
            if "TranslateBatch" in " ".join(child.cmdline())
        )
        actor.kill()
        _, said = driver.communicate()
    assert driver.returncode == 0, said
    assert read(output) == expected
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert f"{len(before)} of {N_SHARDS} files are in {output} already" in said
    assert said.count("row ") == 1
    assert "7.txt, row 7: not translated: not valid UTF-8" in said


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray Serve, about pydantic
def test_a_request_is_asked_again_when_a_replica_dies(bundled_model: Path) -> None:
    """The example of `hubnmt/docs/serve.py`, with one replica that dies once."""
    from hubnmt.docs.serve import Ingress, Model

    model, deaths = Model.func_or_class(str(bundled_model)), [RayActorError()]

    async def remote(text: str) -> str:
        if deaths:
            raise deaths.pop()
        return model.translate(text)

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b'{"text": "Ein Hund rennt im Schnee."}'}

    handle = SimpleNamespace(translate=SimpleNamespace(remote=remote))
    ingress = Ingress.func_or_class(handle)
    asked = ingress(Request({"type": "http"}, receive))
    with ThreadPoolExecutor(1) as aside:  # the browser tests leave this one with a running loop
        assert "dog" in aside.submit(asyncio.run, asked).result()
    assert deaths == []
