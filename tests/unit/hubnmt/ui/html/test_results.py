from pathlib import Path
from xml.etree import ElementTree

import pytest

from hubnmt.model.trace import trace_shapes
from hubnmt.text.metrics import score_corpus
from hubnmt.ui.html import results
from hubnmt.ui.services.compare import compare
from hubnmt.ui.services.files import FileResult, RowWarnings, find_worst
from hubnmt.ui.services.learn import NetworkShapes
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
        n_done=2,
        n_rows=3,
        seconds=0.5,
        warnings=(RowWarnings(2, (f"cut {MARKUP}",)),),
        scores=score_corpus(texts, references),
        worst=find_worst(["a", MARKUP], texts, references),
    )


def test_a_file_shows_scores_with_signatures_and_the_worst(result: FileResult):
    page = results.file_result(result)
    said = _text(page.replace("<progress", "<p"))
    assert result.scores is not None
    for shown in (
        *("2 of 3 lines", "then cancelled", "1 with a warning", "2 Cut <img"),
        "Lowest-scoring sentences",
    ):
        assert shown in said
    assert result.scores.bleu_signature in said
    assert result.scores.chrf_signature in said
    assert _is_safe(page)


def test_differences_are_marked_and_everything_is_escaped(handlers: Handlers):
    sides = compare(handlers, MARKUP, ["", ""], [{}, {"prefix": "<b>OH</b> "}])
    page = results.comparison(sides)
    assert "<mark>&lt;b&gt;OH&lt;/b&gt; </mark>" in page
    assert page.count("<mark>") == 1
    assert "<IMG" not in page
    assert "are highlighted" in _text(page)


def test_the_diagram_shows_every_shape_of_the_sentence(handlers: Handlers):
    config, S, T = handlers.registry.get("").config, 7, 4
    stages = trace_shapes(config, n_src_tokens=S, n_tgt_tokens=T)
    page = results.diagram(NetworkShapes(config, MARKUP, S, T, stages))
    said = _text(page)
    assert page.count('class="stage"') == len(stages)
    for shape in (f"1 × 3 × {T} × {S}", f"1 × {S} × 12", f"1 × {T} × 300"):
        assert shape in said
    assert _is_safe(page)
