from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from hubnmt.text.metrics import score_corpus
from hubnmt.ui.html import results
from hubnmt.ui.services import compare as differences
from hubnmt.ui.services.compare import compare
from hubnmt.ui.services.files import FileProgress, FileResult, find_worst
from hubnmt.ui.services.learn import Lessons
from hubnmt.ui.services.training_runs import Run, Sample
from hubnmt.ui.services.translate import Handlers

MARKUP = "<img src=x onerror=alert(1)> & <script>alert(2)</script> ${x} {{y}}"


def _text(page: str) -> str:
    """Read a piece of HTML as a browser would show it; fails where a tag is left open."""
    return " ".join(ElementTree.fromstring(f"<div>{page}</div>").itertext())


def _is_safe(page: str) -> bool:
    return "<img" not in page and "<script" not in page and "onerror" in page


@pytest.fixture
def result() -> FileResult:
    texts, references = ["A", MARKUP], ["A", "B"]
    return FileResult(
        path=Path("a.txt"),
        n_rows=2,
        seconds=0.5,
        n_warnings=1,
        scores=score_corpus(texts, references),
        worst=find_worst(["a", MARKUP], texts, references),
    )


def test_progress_tells_how_far_and_how_long():
    page = results.progress(FileProgress(n_done=250, n_rows=1000, seconds=5))
    assert "250 of 1,000 lines, about 15 s remaining" in _text(page)
    assert 'max="1000" value="250"' in page
    assert "remaining" not in results.progress(FileProgress(n_done=0, n_rows=9, seconds=0))


def test_a_file_shows_scores_with_signatures_and_the_worst(result: FileResult):
    page = results.file_result(result)
    said = _text(page.replace("<progress", "<p"))
    assert result.scores is not None
    for shown in ("2 lines", "4 lines/s", "1 with a warning", "Lowest-scoring sentences"):
        assert shown in said
    assert result.scores.bleu_signature in said
    assert result.scores.chrf_signature in said
    assert _is_safe(page)


def test_a_file_without_references_shows_no_scores(result: FileResult):
    plain = FileResult(path=result.path, n_rows=2, seconds=0, n_warnings=0, scores=None, worst=())
    assert "BLEU" not in results.file_result(plain)


def test_differences_are_marked_and_everything_is_escaped(handlers: Handlers):
    sides = compare(handlers, MARKUP, ["", ""], [{}, {"prefix": "<b>OH</b> "}])
    page = results.comparison(sides)
    assert "<mark>&lt;b&gt;OH&lt;/b&gt; </mark>" in page
    assert page.count("<mark>") == 1
    assert "<IMG" not in page
    assert "are highlighted" in _text(page)


def test_equal_translations_are_said_to_be_equal(handlers: Handlers):
    page = results.comparison(compare(handlers, "ein hund", ["first", "second"], [{}, {}]))
    assert "Both translations are identical." in _text(page)
    assert "<mark>" not in page
    assert page.count("−1.00") == 0
    assert page.count("perplexity 1.65") == 4


def test_what_is_too_long_to_mark_is_said(handlers: Handlers, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(differences, "MAX_WORDS", 2)
    page = results.comparison(compare(handlers, "ein hund", ["", ""], [{}, {"prefix": "OH "}]))
    assert "too long to highlight differences" in _text(page)


def test_one_model_is_asked_once(handlers: Handlers):
    page = results.comparison(compare(handlers, "ein hund", ["first", ""], [{}, {}]))
    assert page.count("perplexity 1.65") == 2


def test_a_translation_that_was_not_scored_says_so(
    handlers: Handlers, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("hubnmt.ui.services.limits.MAX_SCORED_TOKENS", 1)
    page = results.comparison(compare(handlers, "ein hund", ["", ""], [{}, {}]))
    assert "not scored: empty or too long" in _text(page)


def test_the_diagram_shows_every_shape_of_the_sentence(handlers: Handlers):
    anatomy = Lessons(handlers.registry).anatomy(f"ein {MARKUP}", "A DOG", "")
    page = results.diagram(anatomy)
    said = _text(page)
    assert page.count('class="stage"') == len(anatomy.stages)
    S, T = anatomy.n_src_tokens, anatomy.n_tgt_tokens
    for shape in (f"1 × 3 × {T} × {S}", f"1 × {S} × 12", f"1 × {T} × 300"):
        assert shape in said
    assert _is_safe(page)


def test_a_run_shows_curves_and_how_sentences_changed():
    sample = Sample(MARKUP, MARKUP, ((500, MARKUP), (1500, "better")))
    page = results.run(Run({"loss": ((1, 2.0), (2, 1.0)), "bleu": ((2, 30.0),)}, (sample,)))
    assert page.count("<svg") == 2
    assert "step 1,500" in _text(page)
    assert _is_safe(page)
    assert "details" not in results.run(Run({}, ()))


def test_warnings_of_either_side_are_shown(handlers: Handlers):
    page = results.comparison(compare(handlers, "so long", ["", ""], [{}, {}]))
    assert page.count("&lt;b&gt;cut&lt;/b&gt;") == 2


def test_nothing_said_is_shown_as_nothing(handlers: Handlers):
    first, second = compare(handlers, "ein hund", ["", ""], [{}, {}])
    empty = SimpleNamespace(model="first", spans=(), scores=(None, None), timed=first.timed)
    assert "(empty)" in _text(results.comparison((empty, second)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("n_found", "said"),
    [
        (None, "Searching the Hub"),
        (0, "No hubnmt model on the Hub"),
        (1, "select one to download"),
        (5, "The 5 most recent models"),
    ],
)
def test_a_search_says_what_it_found(n_found: int | None, said: str):
    shown = results.searched("<i>", n_found, at_most=5)
    assert said in shown
    assert "“&lt;i&gt;”" in shown
    assert 'role="status"' in shown
