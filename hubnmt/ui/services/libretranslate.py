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
from hubnmt.ui.services import limits
from hubnmt.ui.services.languages import find_model, list_pairs
from hubnmt.ui.services.translate import Handlers

MAX_TEXTS = 500
"""Maximum number of texts in a request."""

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
            fields: also `alternatives`, their number.

        Raises:
            HubNMTError: if a field is missing or wrong, or a text is too long.
        """
        texts = _read_texts(fields.get("q"))
        if (fields.get("format") or "text") != "text":
            raise InputError("format must be text")
        n_best = 1 + _read_alternatives(fields)
        source, target = fields.get("source") or "auto", fields.get("target") or ""
        detected = [self._detect(text) for text in texts] if source == "auto" else []
        languages = [each.language for each in detected] or [source] * len(texts)
        models = [find_model(self.handlers.registry, each, target) for each in languages]
        found = [
            self._translate(text, model, n_best) for text, model in zip(texts, models, strict=True)
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

    def _detect(self, text: str) -> Detected:
        """Return the most probable source language that a model here translates."""
        known = {src for src, _ in self._pairs()}
        for found in detect_languages(text):
            if found.language in known:
                return found
        raise ModelNotFoundError(
            f"the language of the text was not detected as one of: {', '.join(sorted(known))}; "
            "give its code as source"
        )

    def _translate(self, text: str, model: str, n_best: int) -> list[str]:
        """Return up to n different translations of a text, best first."""
        if not text.strip():
            return [text]
        beam_size = max(n_best, self.handlers.defaults(model).beam_size)
        options: DecodingOptions = {"n_best": n_best, "beam_size": beam_size} if n_best > 1 else {}
        found = self.handlers.translate_text(text, model, **options)
        return [each.text for each in found.translation.n_best]


def _read_texts(q: Any) -> list[str]:
    """Return the texts of a request.

    Raises:
        InputError: if there are none, too many, or too many characters in all.
    """
    texts = q if isinstance(q, list) else [q or ""]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise InputError("q must be a text or a list of texts")
    if len(texts) > MAX_TEXTS:
        raise InputError(f"the request has more than {MAX_TEXTS} texts; split it")
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


def _to_json(found: Detected) -> dict[str, Any]:
    return {"language": found.language, "confidence": round(100 * found.probability, 1)}
