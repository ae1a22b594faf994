import contextvars
import csv
from pathlib import Path
from typing import Any

import pytest

from hubnmt.errors import InputError
from hubnmt.text.metrics import score_corpus
from hubnmt.ui.services import files
from hubnmt.ui.services.files import FileProgress, FileResult, translate_file
from hubnmt.ui.services.translate import Handlers
from hubnmt.ui.services.turns import CLIENT, Client

N_ROWS = 40


@pytest.fixture
def upload(tmp_path: Path) -> str:
    """A table of German captions and references that the stand-in meets, but for one."""
    path = tmp_path / "up load.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "de", "en"])
        writer.writerows([n, f"satz nummer {n} hier", f"SATZ NUMMER {n} HIER"] for n in range(39))
        writer.writerow([39, "der letzte", "something else"])
    return str(path)


def _run(
    handlers: Handlers, path: str, **options: Any
) -> tuple[list[FileProgress], FileResult, str]:
    """Translate a file; read the result while it is there."""
    steps: list[Any] = []
    for found in translate_file(handlers.registry, path, "", **options):
        steps.append(found)
        text = found.path.read_text() if isinstance(found, FileResult) else ""
    *progress, result = steps
    return progress, result, text


def test_a_file_is_translated_in_chunks_with_progress(handlers: Handlers, upload: str):
    progress, result, text = _run(handlers, upload, source="de")
    assert [step.n_done for step in progress] == list(range(0, N_ROWS, files.CHUNK_ROWS))
    assert {step.n_rows for step in progress} == {N_ROWS} == {result.n_rows}
    assert text.splitlines()[1] == "0,satz nummer 0 hier,SATZ NUMMER 0 HIER,SATZ NUMMER 0 HIER"
    assert result.scores is None
    assert result.worst == ()
    with pytest.raises(InputError, match="choose a column; its columns are: id, de, en"):
        _run(handlers, upload)


def test_a_semicolon_separates_columns_as_in_a_german_spreadsheet(
    handlers: Handlers, tmp_path: Path
):
    path = tmp_path / "Liste.csv"
    path.write_bytes("\ufeffNr;Deutsch\r\n1;Guten Tag, du\r\n2;so long\r\n".encode())
    _, result, text = _run(handlers, str(path), source="Deutsch")
    assert text.splitlines()[:2] == ["Nr;Deutsch;translation", "1;Guten Tag, du;GUTEN TAG, DU"]
    assert result.warnings == ((2, ("<b>cut</b>",)),)


@pytest.mark.parametrize(
    ("name", "result"),
    [("letter.txt", "letter.en.txt"), ("letter.de.TXT", "letter.en.txt"), ("x" * 90, "x" * 60)],
)
def test_a_translation_is_called_like_its_source(
    handlers: Handlers, tmp_path: Path, name: str, result: str
):
    path = tmp_path / (name if "." in name else f"{name}.txt")
    path.write_text("ein hund\n")
    found = _run(handlers, str(path))[1]
    assert found.path.name == (result if "." in result else f"{result}.en.txt")


def test_a_cancelled_file_keeps_what_is_done(handlers: Handlers, upload: str):
    def read() -> None:
        n_begun = 0
        CLIENT.set(Client(is_cancelled=lambda: n_begun > 2))
        for found in translate_file(handlers.registry, upload, "", source="de", reference="en"):
            n_begun += 1
            if isinstance(found, FileResult):
                assert (found.n_done, found.n_rows) == (2 * files.CHUNK_ROWS, N_ROWS)
                assert len(found.path.read_text().splitlines()) == 1 + found.n_done
                assert len(found.worst) == files.N_WORST
                return
        pytest.fail("there is no result")

    contextvars.Context().run(read)


def test_references_give_scores_and_the_worst_sentences(handlers: Handlers, upload: str):
    _, result, _ = _run(handlers, upload, source="de", reference="en")
    texts = [f"SATZ NUMMER {n} HIER" for n in range(39)]
    expected = score_corpus([*texts, "DER LETZTE"], [*texts, "something else"])
    assert result.scores == expected
    assert len(result.worst) == files.N_WORST
    assert result.worst[0].row == N_ROWS
    assert result.worst[0][2:] == ("der letzte", "DER LETZTE", "something else")
