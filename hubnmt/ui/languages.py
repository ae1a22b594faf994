"""Languages as people call them, and sentences to try.

Takes BCP 47 tags, gives names and examples. Must not know models.
"""

NAMES = {
    "ar": "Arabic",
    "bn": "Bengali",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "gu": "Gujarati",
    "he": "Hebrew",
    "hi": "Hindi",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "kn": "Kannada",
    "ko": "Korean",
    "ml": "Malayalam",
    "mr": "Marathi",
    "nl": "Dutch",
    "pa": "Punjabi",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sv": "Swedish",
    "ta": "Tamil",
    "te": "Telugu",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "vi": "Vietnamese",
    "zh": "Chinese",
}

EXAMPLES = {
    "de": (
        "Ein Hund rennt im Schnee.",
        "Zwei Frauen sitzen auf einer Bank und lachen.",
        "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
        "Ein Mann mit einem orangefarbenen Hut starrt auf etwas.",
        "Eine Gruppe von Menschen steht vor einem Iglu.",
    ),
    "cs": (
        "Pes běží ve sněhu.",
        "Dvě ženy sedí na lavičce a smějí se.",
    ),
    "en": (
        "A dog is running in the snow.",
        "Two women sit on a bench and laugh.",
        "A boy in a red shirt jumps into the water.",
        "The market is full of people this morning.",
    ),
    "es": (
        "Un perro corre por la nieve.",
        "Dos mujeres están sentadas en un banco y se ríen.",
    ),
    "fr": (
        "Un chien court dans la neige.",
        "Deux femmes rient, assises sur un banc.",
        "Un garçon saute dans l'eau.",
    ),
    "hi": (
        "एक कुत्ता बर्फ में दौड़ रहा है।",
        "दो महिलाएँ एक बेंच पर बैठी हँस रही हैं।",
    ),
    "it": (
        "Un cane corre nella neve.",
        "Due donne ridono sedute su una panchina.",
    ),
    "ml": (
        "ഒരു നായ മഞ്ഞിൽ ഓടുന്നു.",
        "രണ്ട് സ്ത്രീകൾ ബെഞ്ചിലിരുന്ന് ചിരിക്കുന്നു.",
    ),
}
"""Everyday scenes of the kind the bundled model was trained on."""


def language_name(tag: str) -> str:
    """Name a language in English; a tag that is not in the table stands for itself."""
    return NAMES.get(tag.replace("_", "-").split("-")[0].lower(), tag)


def examples(tag: str) -> tuple[str, ...]:
    """Return sentences to try in a language, none for a language without."""
    return EXAMPLES.get(tag.replace("_", "-").split("-")[0].lower(), ())
