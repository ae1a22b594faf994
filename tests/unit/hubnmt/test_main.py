"""The commands: what goes in comes out translated, line by line, in the promised form."""

import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import hubnmt
from hubnmt import Translator
from hubnmt.__main__ import main
from hubnmt.checkpoint import StoredModel, save_model
from hubnmt.config import DecodingConfig
from hubnmt.metrics import score_corpus
from hubnmt.model import Transformer
from hubnmt.tokenizer import Tokenizer

LINES = ["Ein Hund rennt.", "", "Zwei\u2028Männer\x0cstehen.", "  x  ", "നായ", "a\rb", "Ja!"]
TEXT = "".join(f"{line}\n" for line in LINES)
QUICK = ["--max-new-tokens", "6"]
Run = Callable[..., str]


@pytest.fixture
def model(tiny_model: Transformer, tiny_tokenizer: Tokenizer, tmp_path: Path) -> str:
    """A folder with a random model."""
    with torch.no_grad():
        for parameter in tiny_model.parameters():
            parameter.copy_(torch.randn_like(parameter) / max(parameter.shape[-1] ** 0.5, 1))
    stored = StoredModel(
        model=tiny_model,
        src_tokenizer=tiny_tokenizer,
        tgt_tokenizer=tiny_tokenizer,
        decoding=DecodingConfig(beam_size=2),
    )
    save_model(tmp_path / "model", stored)
    return str(tmp_path / "model")


@pytest.fixture
def run(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run a command that must succeed and say nothing wrong; returns standard output."""

    def run_command(*arguments: object) -> str:
        status = main([str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        assert status == 0, err
        assert b"Traceback" not in err
        return out.decode("utf-8")

    return run_command


@pytest.fixture
def expected(model: str) -> list[str]:
    """What the Python interface says about `LINES`, as lines."""
    translations = Translator.from_pretrained(model).translate(LINES, max_new_tokens=6)
    return [translation.text.replace("\n", " ") for translation in translations]


def give_stdin(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


# --- translate -----------------------------------------------------------------------------------


def test_arguments_are_translated_one_a_line(model: str, run: Run, expected: list[str]) -> None:
    out = run("translate", LINES[0], LINES[4], "--model", model, *QUICK)
    assert out == f"{expected[0]}\n{expected[4]}\n"


def test_standard_input_is_translated_line_by_line(
    model: str, run: Run, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    give_stdin(TEXT.encode(), monkeypatch)
    out = run("translate", "--model", model, *QUICK)
    assert out.split("\n") == [*expected, ""]
    assert expected[1] == ""


def test_a_file_is_translated_into_a_file(
    model: str, run: Run, expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_bytes(TEXT.encode())
    files = ["--input", tmp_path / "in.txt", "--output", tmp_path / "out.txt"]
    assert run("translate", *files, "--model", model, *QUICK) == ""
    assert (tmp_path / "out.txt").read_bytes().decode().split("\n") == [*expected, ""]


@pytest.mark.parametrize(
    ("content", "n_lines"), [(b"", 0), (b"\n", 1), (b"x", 1), (b"x\n", 1), (b"\n\nx\n\n", 4)]
)
def test_there_are_as_many_lines_out_as_in(
    content: bytes, n_lines: int, model: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_stdin(content, monkeypatch)
    assert run("translate", "--model", model, *QUICK).count("\n") == n_lines


def test_more_lines_than_a_chunk_keep_their_order(
    model: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubnmt.__main__.CHUNK_LINES", 3)
    lines = [f"Satz {n}" for n in range(10)]
    (tmp_path / "in.txt").write_text("\n".join(lines), encoding="utf-8")
    out = run("translate", "--input", tmp_path / "in.txt", "--model", model, "--json", *QUICK)
    assert [json.loads(line)["src"] for line in out.splitlines()] == lines


def test_json_has_the_promised_fields(model: str, run: Run) -> None:
    text = "Zwei\nMänner"
    out = run("translate", text, "--model", model, "--json", "--n-best", 2, *QUICK)
    assert out.count("\n") == 1
    answer = json.loads(out)
    assert set(answer) == {
        *("src", "text", "score", "n_best", "src_tokens", "tgt_tokens", "tgt_log_probs"),
        "warnings",
    }
    translation = Translator.from_pretrained(model).translate(text, n_best=2, max_new_tokens=6)
    assert answer["src"] == text
    assert answer["text"] == translation.text
    assert answer["score"] == pytest.approx(translation.score)
    assert [set(each) for each in answer["n_best"]] == [{"text", "score"}] * 2
    assert len(answer["tgt_tokens"]) == len(answer["tgt_log_probs"])


def test_letters_stand_in_json_as_themselves(model: str, run: Run) -> None:
    assert "മഞ്ഞ് Männer" in run("translate", "മഞ്ഞ് Männer", "--model", model, "--json", *QUICK)


def test_an_empty_text_is_an_empty_line(model: str, run: Run) -> None:
    assert run("translate", "", "--model", model) == "\n"


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


def test_sampling_follows_its_seed(model: str, run: Run) -> None:
    options = ["--sample", "--temperature", 1.5, "--top-k", 50, "--top-p", 0.95]
    outs = [
        run("translate", "Ein Hund", "--model", model, *options, "--seed", seed, *QUICK)
        for seed in (3, 4, 3)
    ]
    assert outs[0] == outs[2] != outs[1]


def test_warnings_go_to_standard_error_with_the_line(
    model: str, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert main(["translate", "x", "Ja, " * 60, "--model", model, *QUICK]) == 0
    out, err = capsysbinary.readouterr()
    assert out.count(b"\n") == 2
    assert re.search(rb"^line 2: .*longer than the 40 tokens", err, re.MULTILINE)


def test_an_existing_output_is_replaced_only_on_request(
    model: str, run: Run, expected: list[str], tmp_path: Path
) -> None:
    output = tmp_path / "out.txt"
    output.write_text("precious", encoding="utf-8")
    command = ["translate", LINES[0], "--model", model, "--output", str(output), *QUICK]
    assert main(command) == 2
    assert output.read_text(encoding="utf-8") == "precious"
    run(*command, "--overwrite")
    assert output.read_bytes().decode() == f"{expected[0]}\n"


def test_an_interrupted_job_goes_on_behind_its_last_whole_line(
    model: str, run: Run, expected: list[str], tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_bytes(TEXT.encode())
    whole = "".join(f"{line}\n" for line in expected).encode()
    torn = whole[: whole.index(expected[3].encode()) + 2]
    (tmp_path / "out.txt").write_bytes(torn)
    files = ["--input", tmp_path / "in.txt", "--output", tmp_path / "out.txt"]
    run("translate", *files, "--continue", "--model", model, *QUICK)
    assert (tmp_path / "out.txt").read_bytes() == whole
    run("translate", *files, "--continue", "--model", model, *QUICK)
    assert (tmp_path / "out.txt").read_bytes() == whole


def test_a_line_of_100_000_characters_is_translated_in_parts(
    model: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hubnmt.translator.find_suspicions", lambda **_: [])  # it is all nonsense
    line = ("Zwei Männer stehen am Herd, und ein Hund rennt. " * 3000)[:100_000].strip()
    options = ["--beam-size", 1, "--max-new-tokens", 1]
    out = run("translate", line, "--model", model, "--json", *options)
    answer = json.loads(out)
    assert "".join(answer["src_tokens"]).count("Herd") == line.count("Herd")
    assert any("longer than" in warning for warning in answer["warnings"])


def test_ctrl_c_is_one_line(
    model: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Translator, "translate", interrupt)
    assert main(["translate", "x", "--model", model]) == 130
    assert capsys.readouterr().err.count("\n") == 1


# --- evaluate ------------------------------------------------------------------------------------

REFERENCES = ["A dog is running in the snow.", "Two men cook.", "A girl climbs into a playhouse."]
HYPOTHESES = ["A dog runs in the snow.", "Two men are cooking.", "A girl climbs in a playhouse."]
FIELDS = {
    *("n", "bleu", "bleu_signature", "chrf", "chrf_signature", "chrf++"),
    *("seconds", "tgt_tokens_per_s"),
}


def write_lines(path: Path, lines: list[str]) -> Path:
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def test_given_translations_are_scored(run: Run, tmp_path: Path) -> None:
    files = [
        *("--hyp", write_lines(tmp_path / "hyp", HYPOTHESES)),
        *("--ref", write_lines(tmp_path / "ref", REFERENCES)),
    ]
    answer = json.loads(run("evaluate", *files, "--json"))
    expected = score_corpus(HYPOTHESES, REFERENCES)
    assert set(answer) == FIELDS
    assert answer["n"] == 3
    assert (answer["bleu"], answer["bleu_signature"]) == (expected.bleu, expected.bleu_signature)
    assert (answer["chrf"], answer["chrf_signature"]) == (expected.chrf, expected.chrf_signature)
    assert answer["chrf++"] == expected.chrf_plus_plus
    shown = run("evaluate", *files)
    assert f"{expected.bleu:.2f}" in shown
    assert f"{expected.chrf:.2f}" in shown
    assert expected.bleu_signature in shown


def test_a_model_is_scored_and_its_translations_can_be_kept(
    model: str, run: Run, expected: list[str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept.txt"
    references = [f"Reference {n}." for n in range(len(LINES))]
    files = [
        *("--src", write_lines(tmp_path / "src", LINES)),
        *("--ref", write_lines(tmp_path / "ref", references)),
    ]
    answer = json.loads(run("evaluate", "--model", model, *files, "--json", "--save", kept, *QUICK))
    assert set(answer) == FIELDS
    assert answer["n"] == len(LINES)
    assert answer["seconds"] > 0
    assert answer["tgt_tokens_per_s"] > 0
    assert answer["chrf"] == pytest.approx(score_corpus(expected, references).chrf)
    assert kept.read_bytes().decode().split("\n") == [*expected, ""]


def test_kept_translations_stay_one_a_line(
    model: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a translation holds, line n of the kept file belongs to line n of the source."""
    kept = tmp_path / "kept.txt"
    files = [
        *("--src", write_lines(tmp_path / "src", ["a\u2028b", "c\r", "d"])),
        *("--ref", write_lines(tmp_path / "ref", ["x", "y", "z"])),
    ]
    run("evaluate", "--model", model, *files, "--save", kept, *QUICK)
    assert kept.read_bytes().count(b"\n") == 3


def test_an_interval_can_be_asked_for(run: Run, tmp_path: Path) -> None:
    files = [
        *("--hyp", write_lines(tmp_path / "hyp", HYPOTHESES * 4)),
        *("--ref", write_lines(tmp_path / "ref", REFERENCES * 4)),
    ]
    assert json.loads(run("evaluate", *files, "--json", "--bootstrap"))["bleu_interval"] > 0
    assert "±" in run("evaluate", *files, "--bootstrap")


# --- inspect -------------------------------------------------------------------------------------


def test_inspect_tells_what_a_model_is(model: str, run: Run, tiny_config: Any) -> None:
    facts = json.loads(run("inspect", model, "--json"))
    assert facts["versions"]["hubnmt"] == hubnmt.__version__
    assert facts["versions"]["torch"] == torch.__version__
    assert facts["config"]["d_model"] == 12
    assert facts["decoding"]["beam_size"] == 2
    assert facts["tokenizer"]["round trip"] == "exact"
    assert facts["translation"]["text"]
    parts = facts["parameters"]
    total = parts.pop("total")
    assert sum(parts.values()) == total == tiny_config.n_parameters


def test_inspect_can_be_read_by_people(model: str, run: Run) -> None:
    shown = run("inspect", model, "--text", "Zwei Männer")
    for word in ("versions", "d_model: 12", "pieces per word", "round trip: exact", "Zwei Männer"):
        assert word in shown


# --- help ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [["--help"], ["translate", "--help"], ["evaluate", "-h"], ["inspect", "-h"]]
)
def test_help_is_printed_to_standard_output(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    out, err = capsys.readouterr()
    assert "usage: hubnmt" in out
    assert err == ""


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out == f"hubnmt {hubnmt.__version__}\n"
