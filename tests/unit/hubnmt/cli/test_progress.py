"""What a job says about its speed."""

import pytest

from hubnmt.cli.progress import CorpusProgress, Progress


def test_without_a_terminal_there_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([100.0, 110.0, 131.0, 140.0, 150.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with Progress(1000, 100) as progress:
        for _ in range(3):
            progress.update(155)
    assert capsys.readouterr().err == "410 of 1,000 lines, 10.0 lines/s, 00:59 left\n"
    assert progress.summarize() == "465 lines in 00:50 (9.3 lines/s)"


def test_a_corpus_counts_rows_before_its_first_file_is_complete(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([100.0, 131.0, 162.0, 180.0, 200.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    with CorpusProgress(1, 0) as progress:
        progress.count(0, 620)
        progress.count(1, 0)
    assert capsys.readouterr().err.splitlines() == [
        "0 of 1 files, 620 rows, 20.0 rows/s",
        "1 of 1 files, 620 rows, 10.0 rows/s",
    ]
