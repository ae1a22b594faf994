"""The texts of a piece of HTML, which are translated, and the rest, which is kept."""

import html
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import NamedTuple, Self

KEPT = frozenset(("code", "kbd", "pre", "samp", "script", "style", "textarea"))
"""Elements whose contents are kept."""


class Document(NamedTuple):
    """Texts, and what surrounds them."""

    texts: list[str]
    around: list[str]
    """What precedes each text, and what follows the last."""
    is_html: bool

    @classmethod
    def plain(cls, text: str) -> Self:
        """Return a text without markup."""
        return cls([text], ["", ""], is_html=False)

    def join(self, texts: Sequence[str]) -> str:
        """Put translations in the place of the texts."""
        encoded = [html.escape(each, quote=False) if self.is_html else each for each in texts]
        pairs = zip(self.around, [*encoded, ""], strict=True)
        return "".join(kept + text for kept, text in pairs)


def parse_html(text: str) -> Document:
    """Separate the texts of a piece of HTML from its markup; each tag ends a text."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    return Document(parser.texts, parser.around, is_html=True)


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.around = [""]
        self._open: list[str] = []  # elements of `KEPT`

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.around[-1] += self.get_starttag_text() or ""
        if tag in KEPT:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.around[-1] += self.get_starttag_text() or ""

    def handle_endtag(self, tag: str) -> None:
        self.around[-1] += f"</{tag}>"
        if tag in self._open:
            self._open.remove(tag)

    def handle_data(self, data: str) -> None:
        words = data.strip()
        if self._open or not words:
            # The contents of scripts and styles have no character references.
            self.around[-1] += data if self.cdata_elem else html.escape(data, quote=False)
            return
        before, _, after = data.partition(words)
        self.around[-1] += before
        self.texts.append(words)
        self.around.append(after)

    def handle_comment(self, data: str) -> None:
        self.around[-1] += f"<!--{data}-->"

    def handle_decl(self, decl: str) -> None:
        self.around[-1] += f"<!{decl}>"

    def handle_pi(self, data: str) -> None:
        self.around[-1] += f"<?{data}>"

    def unknown_decl(self, data: str) -> None:
        self.around[-1] += f"<![{data}]>"
