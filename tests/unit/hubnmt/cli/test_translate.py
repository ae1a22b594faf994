"""What goes in comes out translated, line by line, in the promised form."""

import io
import itertools
import json
import os
import sys
from collections.abc import Callable
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


def test_a_file_is_searched_by_ctranslate2_if_installed(
    model: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    (tmp_path / "in.txt").write_text("Ja!\n", encoding="utf-8")
    command = ["translate", "--model", model, "--input", str(tmp_path / "in.txt"), *QUICK]
    text = run(*command)
    in_8_bits = [*command, "--dtype", "int8"]  # which our own engine refuses
    assert run(*in_8_bits).count("\n") == 1
    assert main([*in_8_bits, "--engine", "torch"]) == 2
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert run(*command) == text
    assert main(in_8_bits) == 2


@pytest.mark.parametrize("flags", [[], ["--overwrite"]], ids=str)
def test_an_interruption_tells_how_to_go_on_and_that_is_true(
    flags: list[str],
    lines: list[str],
    model: str,
    run: Run,
    expected: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    translate, calls = Translator.translate, itertools.count()

    def interrupt_third_chunk(self: Translator, text: Any, **options: Any) -> Any:
        if text and next(calls) == 2:
            raise KeyboardInterrupt
        return translate(self, text, **options)

    monkeypatch.setattr("hubnmt.cli.options.CHUNK_LINES", 1)
    monkeypatch.setattr(Translator, "translate", interrupt_third_chunk)
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes(as_file(lines))
    if flags:
        output.write_text("old\n" * 9, encoding="utf-8")
    command = ["translate", "--input", str(source), "--model", model, *QUICK]
    command += ["--output", str(output), *flags]
    assert main(command) == 130
    *_, err = capsysbinary.readouterr().err.decode().splitlines()
    assert err == (
        f"hubnmt: interrupted; the lines so far are in {output}.part: --continue continues after "
        "them"
    )
    assert Path(f"{output}.part").read_bytes() == as_file(expected[:2])
    assert not flags or output.read_text(encoding="utf-8") == "old\n" * 9
    run(*command, "--continue")
    assert output.read_bytes() == as_file(expected)


def test_going_on_behind_more_lines_than_there_are_is_refused(
    lines: list[str], model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a file, and of a pipe, whose lines cannot be counted before."""
    source, part = tmp_path / "in.txt", tmp_path / "out.part"
    source.write_bytes(as_file(lines))
    read_end, write_end = os.pipe()
    os.write(write_end, as_file(lines))
    os.close(write_end)
    part.write_text("of another job\n" * (len(lines) + 1), encoding="utf-8")
    before = part.read_bytes()
    command = ["translate", "--output", str(tmp_path / "out"), "--continue", "--model", model]
    for name in (source, f"/dev/fd/{read_end}"):
        assert main([*command, "--input", str(name)]) == 2
        assert f"has {len(lines)} lines, fewer than the {len(lines) + 1}" in capsys.readouterr().err
        assert part.read_bytes() == before


def test_a_text_may_stay_whole_and_unguarded(model: str, run: Run) -> None:
    text = "Ein Hund rennt. Ja!"
    for flags, options in (([], {}), (["--no-split", "--no-guard"], {"split": 0, "guard": 0})):
        out = run("translate", text, "--model", model, "--json", *flags, *QUICK)
        found = Translator.from_pretrained(model).translate(text, max_new_tokens=6, **options)
        assert json.loads(out)["tgt_tokens"] == list(found.tgt_tokens)
        assert found.src_tokens.count("<eos>") == (1 if flags else 2)
