"""The HTTP API of LibreTranslate, whose clients then work with this page.

Source: https://docs.libretranslate.com/api/operations/translate/
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hubnmt.config import DecodingOptions
from hubnmt.errors import InputError, ModelNotFoundError
from hubnmt.text.detection import Detected, detect_languages
from hubnmt.text.languages import language_name, main_tag
from hubnmt.types import Candidate, Translation
from hubnmt.ui.services import limits
from hubnmt.ui.services.catalogue import find_model, list_pairs
from hubnmt.ui.services.html_text import Document, Link, Place, Text, parse_html
from hubnmt.ui.services.translate import Handlers

MAX_TEXTS = 500
"""Maximum number of texts in a request; each text of an HTML page counts."""

MAX_ALTERNATIVES = 15
"""Maximum number of alternatives: the widest beam of a page's model is 16."""


@dataclasses.dataclass(frozen=True, slots=True)
class LibreTranslate:
    """Handlers of the endpoints: the fields of a request to the JSON of its answer."""

    handlers: Handlers

    def languages(self) -> list[dict[str, Any]]:
        """List the languages and those each can be translated to."""
        pairs = self._pairs()
        codes = dict.fromkeys(code for pair in pairs for code in pair)
        return [
            {
                "code": code,
                "name": language_name(code),
                "targets": [tgt for src, tgt in pairs if src == code],
            }
            for code in codes
        ]

    def detect(self, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Detect the language of the text `q`.

        Raises:
            InputError: if a field is missing or wrong.
        """
        texts = _read_texts(fields.get("q"))
        return [_to_json(each) for each in detect_languages("\n".join(texts))]

    def translate(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Translate `q`, a text or a list of texts, from `source` to `target`.

        Args:
            fields: also `format` (`text` or `html`) and `alternatives`, their number.

        Raises:
            HubNMTError: if a field is missing or wrong, or a text is too long.
        """
        texts = _read_texts(fields.get("q"))
        documents = _read_documents(texts, fields)
        n_best = 1 + _read_alternatives(fields)
        source, target = fields.get("source") or "auto", fields.get("target") or ""
        detected = [self._detect(each) for each in documents] if source == "auto" else []
        languages = [each.language for each in detected] or [source] * len(texts)
        models = [find_model(self.handlers.registry, each, target) for each in languages]
        found = [
            _join(
                document,
                [
                    self._translate(text, model, n_best, is_html=document.is_html)
                    for text in document.texts
                ],
            )
            for document, model in zip(documents, models, strict=True)
        ]
        answer: dict[str, list[Any]] = {"translatedText": [best[0] for best in found]}
        if detected:
            answer["detectedLanguage"] = [_to_json(each) for each in detected]
        if n_best > 1:
            answer["alternatives"] = [best[1:] for best in found]
        return answer if isinstance(fields["q"], list) else {k: v[0] for k, v in answer.items()}

    def _pairs(self) -> list[tuple[str, str]]:
        pairs = list_pairs(self.handlers.registry).values()
        return list(dict.fromkeys((main_tag(src), main_tag(tgt)) for src, tgt in pairs if src))

    def _detect(self, document: Document) -> Detected:
        """Return the most probable source language that a model here translates."""
        known = {src for src, _ in self._pairs()}
        for found in detect_languages("\n".join(text.words for text in document.texts)):
            if found.language in known:
                return found
        raise ModelNotFoundError(
            f"the language of the text was not detected as one of: {', '.join(sorted(known))}; "
            "give its code as source"
        )

    def _translate(self, text: Text, model: str, n_best: int, *, is_html: bool) -> list[str]:
        """Return up to n different translations of a text with its markup, best first."""
        if not text.words.strip():
            return [text.words]
        beam_size = max(n_best, self.handlers.defaults(model).beam_size)
        options: DecodingOptions = {"n_best": n_best, "beam_size": beam_size} if n_best > 1 else {}
        found = self.handlers.translate_text(text.words, model, **options).translation
        if not is_html:
            return [each.text for each in found.n_best]
        return [
            text.mark_up(each.text, self._align(found, each, model) if text.elements else [])
            for each in found.n_best
        ]

    def _align(self, translation: Translation, candidate: Candidate, model: str) -> list[Link]:
        """Align the words of a text and of one of its translations; see `limits.align`."""
        translator, behind = self.handlers.registry.get(model), 0
        links: list[Link] = []
        for (start, end), row in zip(
            [each.src for each in translation.sentences], candidate.tgt_ids, strict=True
        ):
            sentence = Candidate("", 0.0, (row,))
            try:
                maps = limits.attend_candidate(translator, translation.src[start:end], sentence)
            except InputError:  # too long to align: its elements are put before it
                continue
            src, tgt = (side.text.lstrip() for side in (maps.src, maps.tgt))
            behind = max(candidate.text.find(tgt, behind), behind)
            moves = start - len(maps.src.text) + len(src), behind - len(maps.tgt.text) + len(tgt)
            links += [
                (_move(link.src, moves[0]), _move(link.tgt, moves[1]))
                for link in maps.word_alignment()
            ]
            behind += len(tgt)
        return links


def _read_texts(q: Any) -> list[str]:
    """Return the texts of a request.

    Raises:
        InputError: if there are none, or too many characters in all.
    """
    texts = q if isinstance(q, list) else [q or ""]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InputError("q must be a text or a list of texts")
    limits.check_text("\n".join(texts))
    return texts


def _read_alternatives(fields: Mapping[str, Any]) -> int:
    """Return the number of alternatives; a form has it as text.

    Raises:
        InputError: if it is not a number, or too large.
    """
    given = str(fields.get("alternatives") or 0)
    if not given.isdecimal() or int(given) > MAX_ALTERNATIVES:
        raise InputError(f"alternatives = {given[:20]} must be 0 to {MAX_ALTERNATIVES}")
    return int(given)


def _read_documents(texts: list[str], fields: Mapping[str, Any]) -> list[Document]:
    """Parse texts of the given format.

    Raises:
        InputError: if the format is unknown, or there are too many texts.
    """
    kind = fields.get("format") or "text"
    if kind not in ("text", "html"):
        raise InputError("format must be text or html")
    found = [parse_html(text) if kind == "html" else Document.plain(text) for text in texts]
    if sum(len(each.texts) for each in found) > MAX_TEXTS:
        raise InputError(f"the request has more than {MAX_TEXTS} texts; split it")
    return found


def _join(document: Document, found: list[list[str]]) -> list[str]:
    """Return the translations of a document from those of its texts, best first."""
    n_found = max(map(len, found), default=1)
    return [
        document.join([best[min(rank, len(best) - 1)] for best in found]) for rank in range(n_found)
    ]


def _move(place: Place, offset: int) -> Place:
    return place[0] + offset, place[1] + offset


def _to_json(found: Detected) -> dict[str, Any]:
    return {"language": found.language, "confidence": round(100 * found.probability, 1)}
