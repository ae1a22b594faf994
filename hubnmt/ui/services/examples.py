"""Example sentences for each source language."""

from hubnmt.text.languages import main_tag

EVERYDAY = {
    "de": (
        "Ich habe heute Morgen meine Schlüssel verloren.",
        "Das Buch, das du mir geschenkt hast, gefällt mir sehr.",
        "Wenn das Wetter morgen schön ist, fahren wir ans Meer.",
        "Meine Schwester wohnt in Berlin. Sie kommt am Sonntag.",
    ),
    "en": (
        "I lost my keys this morning.",
        "I like the book that you gave me very much.",
        "If the weather is fine tomorrow, we will go to the sea.",
        "My sister lives in London. She is coming on Sunday.",
    ),
    "fr": (
        "J'ai perdu mes clés ce matin.",
        "Le livre que tu m'as offert me plaît beaucoup.",
        "S'il fait beau demain, nous irons à la mer.",
        "Ma sœur habite à Paris. Elle vient nous voir dimanche.",
    ),
    "ml": (
        "ഇന്ന് രാവിലെ എന്റെ താക്കോൽ നഷ്ടപ്പെട്ടു.",
        "നിങ്ങൾ എവിടെയാണ് താമസിക്കുന്നത്?",
        "നാളെ മഴ പെയ്താൽ ഞങ്ങൾ വീട്ടിൽ ഇരിക്കും.",
    ),
}
"""Everyday sentences."""

CAPTIONS = {
    "de": (
        "Zwei Frauen sitzen auf einer Bank und lachen.",
        "Ein Hund rennt im Schnee.",
        "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
        "Ein Mann mit einem orangefarbenen Hut starrt auf etwas.",
        "Eine Gruppe von Menschen steht vor einem Iglu.",
    ),
    "en": (
        "Two women sit on a bench and laugh.",
        "A dog is running in the snow.",
        "A boy in a red shirt jumps into the water.",
    ),
}
"""Image captions."""

CAPTION_SETS = ("multi30k", "coco")
"""Test sets of image captions: a model evaluated on one of these was trained on captions."""


def examples(tag: str, measured_on: str = "") -> tuple[str, ...]:
    """Return example sentences in a language, or none if the language has no examples.

    For a model measured on captions they are captions, else everyday sentences and one caption.
    """
    language = main_tag(tag)
    captions = CAPTIONS.get(language, ())
    if captions and any(name in measured_on.lower() for name in CAPTION_SETS):
        return captions
    return (*EVERYDAY.get(language, ()), *captions[:1])
