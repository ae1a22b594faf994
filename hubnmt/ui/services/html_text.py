"""The texts of a piece of HTML, which are translated, and the rest, which is kept.

Block elements end a text. Inline ones stay in it: each encloses the translation of what it
enclosed, by the word alignment.
"""

import dataclasses
import html
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import NamedTuple, Self

KEPT = frozenset(("code", "kbd", "pre", "samp", "script", "style", "textarea"))
"""Elements whose contents are kept."""

INLINE = frozenset(
    (
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em"),
        *("font", "i", "img", "ins", "label", "mark", "q", "s", "small", "span", "strike"),
        *("strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
    )
)
"""Elements that do not end a sentence."""

VOID = frozenset(("img", "wbr"))
"""Those without an end tag."""

SPACE = re.compile(r"[ \t\n\r\f]+")

Place = tuple[int, int]
"""Start and end in a text, in characters."""
Link = tuple[Place, Place]
"""A word of the source and the word of the translation that is aligned with it."""


@dataclasses.dataclass(slots=True)
class Element:
    """An inline element of a text."""

    opening: str
    closing: str
    start: int
    end: int
    parent: "Element | None"
    tgt: Place = (0, 0)
    """The place of its contents in a translation."""


class Text(NamedTuple):
    """A text with its inline elements."""

    words: str
    elements: Sequence[Element] = ()
    """In the order of their start tags."""

    def mark_up(self, translation: str, links: Sequence[Link]) -> str:
        """Return a translation as HTML, each element around the words aligned with its own."""
        whole = (0, len(translation))
        for number, each in enumerate(self.elements):
            low, high = each.parent.tgt if each.parent else whole
            place = self._find(each, translation, links)
            start, end = (min(max(offset, low), high) for offset in place)
            for other in self.elements[:number]:
                if other.parent is each.parent and start < other.tgt[1] and other.tgt[0] < end:
                    # The larger part on one side of it, so that elements stay nested.
                    pieces = (start, max(start, other.tgt[0])), (min(end, other.tgt[1]), end)
                    start, end = max(pieces, key=lambda piece: piece[1] - piece[0])
            each.tgt = start, end
        return _write(translation, whole, None, self.elements)

    def _find(self, element: Element, translation: str, links: Sequence[Link]) -> Place:
        """Return the place of an element's contents in a translation."""
        if (element.start, element.end) == (0, len(self.words)):
            return 0, len(translation)
        found = [tgt for src, tgt in links if src[0] < element.end and element.start < src[1]]
        if found and element.start < element.end:
            return min(start for start, _ in found), max(end for _, end in found)
        # Nothing enclosed, or nothing aligned: after the words before it.
        ends = [tgt[1] for src, tgt in links if src[1] <= element.start]
        at = max(ends, default=0)
        return at, at


def _write(text: str, within: Place, parent: Element | None, elements: Sequence[Element]) -> str:
    """Write a part of a translation and the elements in it."""
    written, at = "", within[0]
    inside = [each for each in elements if each.parent is parent]
    for each in sorted(inside, key=lambda each: each.tgt):
        content = _write(text, each.tgt, each, elements)
        written += html.escape(text[at : each.tgt[0]], quote=False)
        written += f"{each.opening}{content}{each.closing}"
        at = each.tgt[1]
    return written + html.escape(text[at : within[1]], quote=False)


class Document(NamedTuple):
    """Texts, and what surrounds them."""

    texts: list[Text]
    around: list[str]
    """What precedes each text, and what follows the last."""
    is_html: bool

    @classmethod
    def plain(cls, text: str) -> Self:
        """Return a text without markup."""
        return cls([Text(text)], ["", ""], is_html=False)

    def join(self, texts: Sequence[str]) -> str:
        """Put translations, with their markup, in the place of the texts."""
        pairs = zip(self.around, [*texts, ""], strict=True)
        return "".join(kept + text for kept, text in pairs)


def parse_html(text: str) -> Document:
    """Separate the texts of a piece of HTML from its markup; each block ends a text."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    parser.end_text()
    return Document(parser.texts, parser.around, is_html=True)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[Text] = []
        self.around = [""]
        self._kept: list[str] = []  # open elements of `KEPT`
        self._raw = ""  # the current text as it stands, for one without words
        self._words = ""
        self._elements: list[Element] = []
        self._open: list[tuple[str, Element]] = []

    def end_text(self) -> None:
        """End the current text, without the white space around it."""
        words = self._words.strip(" ")
        if not words.strip():
            self.around[-1] += self._raw
        else:
            before, _, after = self._words.partition(words)
            for each in self._elements:
                each.start, each.end = (
                    min(max(offset - len(before), 0), len(words))
                    for offset in (each.start, each.end)
                )
            self.around[-1] += before
            self.texts.append(Text(words, self._elements))
            self.around.append(after)
        self._raw, self._words, self._elements, self._open = "", "", [], []

    def _keep(self, markup: str) -> None:
        """Keep markup that ends a text."""
        self.end_text()
        self.around[-1] += markup

    def _begin(self, opening: str, closing: str = "") -> Element:
        """Add an inline element, which is empty until it is ended."""
        parent, at = self._open[-1][1] if self._open else None, len(self._words)
        element = Element(opening, closing, at, at, parent)
        self._elements.append(element)
        self._raw += opening
        return element

    def handle_starttag(self, tag: str, attrs: object) -> None:
        markup = self.get_starttag_text() or ""
        if tag not in INLINE or self._kept:
            self._keep(markup)
            self._kept += [tag] * (tag in KEPT)
        elif tag in VOID:
            self._begin(markup)
        else:
            self._open.append((tag, self._begin(markup)))

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        markup = self.get_starttag_text() or ""
        if tag in INLINE and not self._kept:
            self._begin(markup)
        else:
            self._keep(markup)

    def handle_endtag(self, tag: str) -> None:
        markup = f"</{tag}>"
        if tag not in INLINE or self._kept:
            self._keep(markup)
            if tag in self._kept:
                self._kept.remove(tag)
        elif tag not in (name for name, _ in self._open):
            self._begin(markup)  # of an element that began before this text
        else:
            self._raw += markup
            name = ""
            while name != tag:
                name, element = self._open.pop()
                element.end = len(self._words)
            element.closing = markup

    def handle_data(self, data: str) -> None:
        if self._kept:
            # The contents of scripts and styles have no character references.
            self._keep(data if self.cdata_elem else html.escape(data, quote=False))
            return
        self._raw += html.escape(data, quote=False)
        words = SPACE.sub(" ", data)
        self._words += words.removeprefix(" ") if self._words.endswith(" ") else words

    def handle_comment(self, data: str) -> None:
        self._begin(f"<!--{data}-->")

    def handle_decl(self, decl: str) -> None:
        self._keep(f"<!{decl}>")

    def handle_pi(self, data: str) -> None:
        self._keep(f"<?{data}>")

    def unknown_decl(self, data: str) -> None:
        self._keep(f"<![{data}]>")
