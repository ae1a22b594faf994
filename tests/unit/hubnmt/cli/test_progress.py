"""What a job says about its speed."""

import pytest

from hubnmt.cli.progress import Progress


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
