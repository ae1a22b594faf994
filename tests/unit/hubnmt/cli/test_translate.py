"""What goes in comes out translated, line by line, in the promised form."""

import contextlib
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hubnmt import Translator
from hubnmt.__main__ import main

QUICK = ["--max-new-tokens", "6"]
Run = Callable[..., str]


def as_file(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def give_stdin(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_there_are_as_many_lines_out_as_in(
    model: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for content, n_lines in ((b"", 0), (b"\n", 1), (b"x", 1), (b"\n\nx\n\n", 4)):
        give_stdin(content, monkeypatch)
        assert run("translate", "--model", model, *QUICK).count("\n") == n_lines


def test_json_has_the_promised_fields(model: str, run: Run) -> None:
    text = "Zwei\nMänner മഞ്ഞ്"
    out = run("translate", text, "--model", model, "--json", "--n-best", 2, *QUICK)
    assert out.count("\n") == 1
    assert "Männer മഞ്ഞ്" in out
    answer = json.loads(out)
    assert set(answer) == {
        *("src", "text", "score", "n_best", "src_tokens", "tgt_tokens", "tgt_log_probs"),
        *("warnings", "token_probability", "to_check"),
    }
    translation = Translator.from_pretrained(model).translate(text, n_best=2, max_new_tokens=6)
    assert answer["src"] == text
    assert answer["text"] == translation.text
    assert answer["score"] == pytest.approx(translation.score)
    assert [set(each) for each in answer["n_best"]] == [{"text", "score"}] * 2
    assert len(answer["tgt_tokens"]) == len(answer["tgt_log_probs"])


def test_every_decoding_option_reaches_the_search(model: str, run: Run) -> None:
    options: dict[str, Any] = {
        **{"beam_size": 4, "length_penalty": -0.5, "n_best": 3, "max_new_tokens": 9},
        **{"no_repeat_ngram_size": 2, "repetition_penalty": 1.3, "prefix": "A"},
    }
    flags = [(f"--{name.replace('_', '-')}", value) for name, value in options.items()]
    out = run("translate", "Ein Hund", "--model", model, "--json", *sum(flags, ()))
    expected = Translator.from_pretrained(model).translate("Ein Hund", **options)
    texts = [each.text for each in expected.n_best]
    assert [each["text"] for each in json.loads(out)["n_best"]] == texts


@pytest.fixture
def interrupt_third_chunk(expected: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Press Ctrl-C when two lines are written."""
    translate, calls = Translator.translate, itertools.count()

    def count(self: Translator, text: Any, **options: Any) -> Any:
        if text and next(calls) == 2:
            raise KeyboardInterrupt
        return translate(self, text, **options)

    with monkeypatch.context() as patch:
        patch.setattr("hubnmt.cli.options.CHUNK_LINES", 1)
        patch.setattr(Translator, "translate", count)
        yield


@pytest.mark.usefixtures("interrupt_third_chunk")
@pytest.mark.parametrize("old", [None, "old\n" * 9])
def test_an_interruption_tells_how_to_go_on_and_that_is_true(
    old: str | None,
    lines: list[str],
    model: str,
    run: Run,
    expected: list[str],
    tmp_path: Path,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "my out.txt"
    source.write_bytes(as_file(lines))
    flags = []
    if old is not None:
        output.write_text(old, encoding="utf-8")
        flags = ["--overwrite"]
    command = ["translate", "--input", str(source), "--model", model, *QUICK]
    assert main([*command, "--output", str(output), *flags]) == 130
    *_, err = capsysbinary.readouterr().err.decode().splitlines()
    assert err.startswith("hubnmt: interrupted; ")
    assert (f"{output} is unchanged" in err) == (old is not None)
    name = re.search(r"--continue(?: --output '(.*)' without --overwrite)? continues", err)
    assert name
    written = Path(name[1] or output)
    assert written.read_bytes() == as_file(expected[:2])
    assert (written == output) == (old is None)
    run(*command, "--output", written, "--continue")
    assert written.read_bytes() == as_file(expected)
    assert old is None or output.read_text(encoding="utf-8") == old


def open_pipe(content: bytes) -> str:
    read_end, write_end = os.pipe()
    os.write(write_end, content)
    os.close(write_end)
    return f"/dev/fd/{read_end}"


def test_going_on_behind_more_lines_than_there_are_is_refused(
    lines: list[str], model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a file, and of a pipe, whose lines cannot be counted before."""
    source, output, pipe = tmp_path / "in.txt", tmp_path / "out.txt", open_pipe(as_file(lines))
    source.write_bytes(as_file(lines))
    content = "of another job\n" * len(lines) + "one too many"
    output.write_text(content, encoding="utf-8")
    command = ["translate", "--output", str(output), "--continue", "--model", model, *QUICK]
    for name in (source, pipe):
        assert main([*command, "--input", str(name)]) == 2
        assert f"{output} has {len(lines) + 1} lines and {name} fewer" in capsys.readouterr().err
        assert output.read_text(encoding="utf-8") == content


def test_a_text_may_stay_whole_and_unguarded(model: str, run: Run) -> None:
    text = "Ein Hund rennt. Ja!"
    for flags, options in (([], {}), (["--no-split", "--no-guard"], {"split": 0, "guard": 0})):
        out = run("translate", text, "--model", model, "--json", *flags, *QUICK)
        found = Translator.from_pretrained(model).translate(text, max_new_tokens=6, **options)
        assert json.loads(out)["tgt_tokens"] == list(found.tgt_tokens)
        assert found.src_tokens.count("<eos>") == (1 if flags else 2)


@pytest.mark.slow
def test_several_processes_keep_the_order_and_end_with_ctrl_c(
    lines: list[str], model: str, expected: list[str], repo: Path, tmp_path: Path
) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(as_file(lines * 100_000))
    command = [sys.executable, "-m", "hubnmt", "translate", "--model", model, *QUICK]
    command += ["--workers", "2", "--input", str(source), "--output", str(output)]
    with subprocess.Popen(command, cwd=repo, stderr=subprocess.PIPE, start_new_session=True) as job:
        while not (output.exists() and output.stat().st_size):
            assert job.poll() is None
            time.sleep(0.1)
        os.killpg(job.pid, signal.SIGINT)
        _, err = job.communicate(timeout=200)
    assert job.returncode == 130
    assert b"Traceback" not in err
    assert err.splitlines()[-1].startswith(b"hubnmt: interrupted; ")
    written = output.read_bytes()
    assert written.count(b"\n") > len(lines)
    assert as_file(expected * 100_000).startswith(written)
    with contextlib.suppress(ProcessLookupError):
        for _ in range(100):
            os.killpg(job.pid, 0)
            time.sleep(0.1)
        pytest.fail("a process is left")
