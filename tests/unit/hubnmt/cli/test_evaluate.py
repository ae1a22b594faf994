"""Scores of files and of models are sacreBLEU's, in the promised form."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hubnmt import Translator
from hubnmt.__main__ import main
from hubnmt.text.metrics import score_corpus

QUICK = ["--max-new-tokens", "6"]
Run = Callable[..., str]

REFERENCES = ["A dog is running in the snow.", "Two men cook.", "A girl climbs into a playhouse."]
HYPOTHESES = ["A dog runs in the snow.", "Two men are cooking.", "A girl climbs in a playhouse."]
FIELDS = {
    *("n", "bleu", "bleu_signature", "chrf", "chrf_signature", "chrf++", "chrf++_signature"),
    *("guard", "fallbacks", "seconds", "tgt_tokens_per_s"),
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
    scores = {"bleu": expected.bleu, "chrf": expected.chrf, "chrf++": expected.chrf_plus_plus}
    signatures = {f"{name}_signature": answer[f"{name}_signature"] for name in scores}
    no_model = dict.fromkeys(("guard", "fallbacks", "seconds", "tgt_tokens_per_s"))
    assert answer == {"n": 3} | scores | signatures | no_model
    assert signatures["bleu_signature"] == expected.bleu_signature
    assert "|nw:2|" in signatures["chrf++_signature"]
    shown = run("evaluate", *files)
    assert [each for each in signatures.values() if each not in shown] == []
    assert [each for each in scores.values() if f"{each:.2f}" not in shown] == []


def test_a_model_is_scored(
    lines: list[str], model: str, run: Run, expected: list[str], tmp_path: Path
) -> None:
    references = [f"Reference {n}." for n in range(len(lines))]
    files = [
        *("--src", write_lines(tmp_path / "src", lines)),
        *("--ref", write_lines(tmp_path / "ref", references)),
    ]
    answer = json.loads(run("evaluate", "--model", model, *files, "--json", *QUICK))
    assert set(answer) == FIELDS
    assert answer["n"] == len(lines)
    assert answer["seconds"] > 0
    assert answer["tgt_tokens_per_s"] > 0
    assert answer["chrf"] == pytest.approx(score_corpus(expected, references).chrf)


@pytest.mark.parametrize("empty", ["", " ", "\u3000\t"])
def test_a_line_without_a_source_has_no_score_and_the_others_have(
    empty: str, model: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    sources, targets = ["Ein Hund", empty, "Zwei", empty], ["A dog", "two", "", ""]
    files = [
        *("--src", str(write_lines(tmp_path / "src", sources))),
        *("--tgt", str(write_lines(tmp_path / "tgt", targets))),
    ]
    command = ["score", "--model", model, *files]
    assert main([*command, "--json"]) == 0
    out, err = capsysbinary.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    scores = Translator.from_pretrained(model).score([sources[0], sources[2]], ["A dog", ""])
    totals = [scores[0].log_prob, None, scores[1].log_prob, None]
    assert [each["log_prob"] for each in found] == pytest.approx(totals)
    assert [set(each) for each in found] == [set(found[0])] * 4
    assert [bool(each["tgt_tokens"]) for each in found] == [True, False, True, False]
    assert [line.split(b":")[0] for line in err.splitlines()] == [b"line 2", b"line 4"]
    assert main(command) == 0
    lines = capsysbinary.readouterr().out.decode().splitlines()
    assert lines[1] == lines[3] == "nan\tnan"
    assert float(lines[2].split("\t")[0]) == pytest.approx(totals[2], abs=1e-4)
