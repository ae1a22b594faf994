"""English names of languages by BCP 47 tag."""

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


def language_name(tag: str) -> str:
    """Return the English name of a language, or the tag itself if it is unknown."""
    return NAMES.get(main_tag(tag), tag)


def main_tag(tag: str) -> str:
    """Return the language of a BCP 47 tag, or of a locale such as `de_DE`: `pt` for `pt-BR`."""
    return tag.replace("_", "-").split("-")[0].lower()


EXAMPLES = {
    "de": "Ein kleiner Hund rennt durch den Schnee.",
    "en": "A small dog is running through the snow.",
    "fr": "Un petit chien court dans la neige.",
    "ml": "ഒരു ചെറിയ നായ മഞ്ഞിലൂടെ ഓടുന്നു.",
}


def example_sentence(language: str) -> str:
    """Return a short sentence in a language, given by its tag; in English if there is none."""
    return EXAMPLES.get(main_tag(language), EXAMPLES["en"])
