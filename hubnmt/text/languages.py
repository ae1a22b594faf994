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

_CODES = (
    "af afr, am amh, ar ara arb, as asm, az aze azj, be bel, bg bul, bn ben, bs bos, ca cat, "
    "cs ces cze, cy cym wel, da dan, de deu ger, el ell gre, en eng, es spa, et ekk est, "
    "eu baq eus, fa fas per pes, fi fin, fo fao, fr fra fre, ga gle, gl glg, gu guj, he heb, "
    "hi hin, hr hrv, hu hun, hy arm hye, id ind, is ice isl, it ita, ja jpn, ka geo kat, "
    "kk kaz, km khm, kn kan, ko kor, ky kir, lb ltz, lo lao, lt lit, lv lav lvs, mk mac mkd, "
    "ml mal, mn khk mon, mr mar, ms may msa zsm, mt mlt, my bur mya, nb nob, ne nep npi, "
    "nl dut nld, nn nno, no nor, or ori ory, pa pan, pl pol, ps pus, pt por, ro ron rum, "
    "ru rus, sa san, si sin, sk slk slo, sl slv, sq alb sqi, sr srp, sv swe, sw swa swh, "
    "ta tam, te tel, tg tgk, th tha, tl tgl, tr tur, uk ukr, ur urd, uz uzb uzn, vi vie, "
    "yi yid, zh chi cmn zho"
)
TWO_LETTERS = {
    long: short for short, *longs in map(str.split, _CODES.split(", ")) for long in longs
}
"""ISO 639-2 and 639-3 codes to ISO 639-1 codes, for languages with rules of sentence splitting.
Source: the package `iso-codes`."""


def language_name(tag: str) -> str:
    """Return the English name of a language, or the tag itself if it is unknown."""
    return NAMES.get(main_tag(tag), tag)


def main_tag(tag: str) -> str:
    """Return the language subtag, as an ISO 639-1 code if there is one: `pt` for `pt-BR` or `por`.

    Args:
        tag: BCP 47 tag, or as FLORES or a locale spell it (`deu_Latn`, `de_DE`).
    """
    code = tag.replace("_", "-").split("-")[0].lower()
    return TWO_LETTERS.get(code, code)


EXAMPLES = {
    "de": "Ein kleiner Hund rennt durch den Schnee.",
    "en": "A small dog is running through the snow.",
    "fr": "Un petit chien court dans la neige.",
    "ml": "ഒരു ചെറിയ നായ മഞ്ഞിലൂടെ ഓടുന്നു.",
}


def example_sentence(language: str) -> str:
    """Return a short sentence in a language, given by its tag; in English if there is none."""
    return EXAMPLES.get(main_tag(language), EXAMPLES["en"])
