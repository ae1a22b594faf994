"""Unicode normalisation of text, as the model receives it."""

from tokenizers import normalizers

from hubnmt.errors import InputError

CHILLUS = {
    "\u0d23\u0d4d\u200d": "\u0d7a",
    "\u0d28\u0d4d\u200d": "\u0d7b",
    "\u0d30\u0d4d\u200d": "\u0d7c",
    "\u0d32\u0d4d\u200d": "\u0d7d",
    "\u0d33\u0d4d\u200d": "\u0d7e",
    "\u0d15\u0d4d\u200d": "\u0d7f",
}
"""Malayalam chillus as consonant + virama + ZWJ, and their atomic letters (Unicode 5.1)."""

NORMAL_STEPS = [
    # The library's NFC rather than Python's, as their Unicode versions differ.
    normalizers.NFC(),
    *(normalizers.Replace(spelled, letter) for spelled, letter in CHILLUS.items()),
]
_NORMALIZER = normalizers.Sequence(NORMAL_STEPS)


def normalize(text: str) -> str:
    """Return the text in NFC with unified chillus, as the model receives it.

    Raises:
        InputError: if the text has a lone surrogate, which cannot be encoded in UTF-8.
    """
    try:
        return _NORMALIZER.normalize_str(text)
    except (TypeError, UnicodeEncodeError):
        raise InputError(
            "the text has a lone surrogate, which is not a valid character; remove it"
        ) from None


def single_spaced(text: str) -> str:
    """Collapse white space to single spaces and strip it at both ends.

    Tabs, no-break spaces and repeated spaces do not occur in the training data.
    """
    return " ".join(text.split())
