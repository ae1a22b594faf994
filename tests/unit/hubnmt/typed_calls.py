"""Right and wrong calls of the public API, read by mypy alone.

Each wrong call is ignored by name, so mypy reports an unused ignore where it no longer finds it.
"""

from hubnmt import Translator
from hubnmt.config import DecodingConfig


def call_rightly(translator: Translator) -> list[str]:
    one = translator.translate("Ja.", beam_size=3, max_new_tokens=None, prefix="Y")
    many = translator(["Ja."], decoding=DecodingConfig(beam_size=2), guard=False)
    return [one.text, *(each.text for each in (*many, *translator(x for x in ("Ja.", "Nein."))))]


def call_wrongly(translator: Translator) -> None:
    translator.translate("Ja.", beam_sizee=3)  # type: ignore[call-overload]
    translator.translate(["Ja."], beam_size="3")  # type: ignore[call-overload]
    translator("Ja.", tempratur=3)  # type: ignore[call-overload]
    translator.stream("Ja.", beam=3)  # type: ignore[call-arg]
    translator.translate(3)  # type: ignore[call-overload]
    assert translator.translate(["Ja."]).text  # type: ignore[attr-defined]
    translator.decoding.with_options(top_q=0.5)  # type: ignore[call-arg]
