"""Tokenizer: text survives it, words stay whole in every script, and every byte has an address."""

import json
import random
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tokenizers import pre_tokenizers

from hubnmt.errors import ModelFolderError
from hubnmt.text.characters import normalize
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.text.tokenizer_file import MAX_FILE_MIB

TEXTS = [
    "Ein Hund rennt durch den Schnee.",
    "Zwei Männer stehen am Herd und kochen.",
    "Ein Hund und zwei Männer rennen.",
    "കുട്ടികൾ പുസ്തകങ്ങൾ വായിക്കുന്നു.",
    "ഞങ്ങളുടെ പുസ്തകങ്ങൾ",
]

VIRAMA, ZWNJ, ZWJ = "\u0d4d", "\u200c", "\u200d"

MALAYALAM = "എന്റെ ഗ്രാമത്തിൽ കുട്ടികൾ ഞങ്ങളുടെ പുസ്തകങ്ങൾ വായിക്കുന്നു"
"""In my village the children read our books: six words."""

AWKWARD_TEXTS = [
    "  a  b  \n a\r\nb\n\n\ta\t\tb\u00a0c\u2028d\u3000e\x85f ",
    "\x00\x01 a\x7fb\x1b[0m \ufeffa\ufeff \uffff\U0010fffd\U0010ffff \ue000\U000f0000",
    "<pad> <eos><bos>x<eos> Ġ Ċ ĠĠ Ń",  # specials, and stand-ins of the byte alphabet
    "👩\u200d👩\u200d👧\u200d👦 👍🏽 🇩🇪 \u200d \u200c\u200d a\u200d",
    "\u0301 \u0301a e\u0301 o\u0308 a\u0323\u0302 q\u0307\u0323",  # marks, alone and to compose
    "\u1112\u1161\u11ab\u1100\u1173\u11af \u212b \u2126 \ufb1d \u0958",
    "അവന\u0d4d\u200d അവള\u0d4d\u200d ക\u0d4d\u200c \u0928\u094d\u200d",
    "שָׁלוֹם עולם \u200fالعَرَبِيَّةُ 3,14 १२३ ½ ² Ⅷ 2024-12-31",
    " ",
]

ADDED_TOKEN_FLAGS = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, 320)


def random_text(generator: random.Random) -> str:
    """Mix all of Unicode with the characters that have broken tokenizers before."""
    pools = ["ab \n", " \t\r\n\u00a0", "\u200c\u200d\u0d4d\u0d23\u0d28\u0d30\u0d32\u0d33\u0d15"]
    pools += ["eo\u0301\u0308\u0323", "".join(chr(code) for code in range(0x0D00, 0x0D80))]
    pools += ["<pad><eos>", "👩👍\U0001f3fd\u200d\ufe0f"]

    def random_char() -> str:
        if generator.random() < 0.6:
            return generator.choice(generator.choice(pools))
        code = generator.randrange(0x110000 - 0x800)
        return chr(code if code < 0xD800 else code + 0x800)  # all but the surrogates

    return "".join(random_char() for _ in range(generator.randint(1, 30)))


def test_every_character_comes_back_as_its_normal_form(tokenizer: Tokenizer) -> None:
    codes = [*range(0xD800), *range(0xE000, 0x10000), *range(0x10000, 0x110000, 317)]
    chars = list(map(chr, codes))  # all of the first plane, a sample of the others
    for start in range(0, len(chars), 4096):
        text = "x".join(chars[start : start + 4096])
        assert tokenizer.decode(tokenizer.encode(text)) == normalize(text)


def test_the_library_alone_decodes_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    library = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert (loaded.pad_id, loaded.bos_id, loaded.eos_id) == (0, 1, 2)
    for text in [*TEXTS, *AWKWARD_TEXTS]:
        ids = tokenizer.encode(text)
        assert loaded.encode(text) == ids
        assert library.encode(text, add_special_tokens=False).ids == ids
        assert library.decode(ids) == normalize(text)


@pytest.mark.parametrize(("consonant", "chillu"), [("NNA", "NN"), ("RA", "RR"), ("LLA", "LL")])
def test_a_chillu_has_one_spelling(tokenizer: Tokenizer, consonant: str, chillu: str) -> None:
    letter = unicodedata.lookup(f"MALAYALAM LETTER CHILLU {chillu}")
    spelled = unicodedata.lookup(f"MALAYALAM LETTER {consonant}") + VIRAMA + ZWJ
    assert normalize(f"അ{spelled}അ") == f"അ{letter}അ"
    assert tokenizer.encode(f"അ{spelled}അ") == tokenizer.encode(f"അ{letter}അ")


@pytest.mark.parametrize(
    "text",
    [
        "हिन्दी में लिखी हुई किताबें",
        "தமிழ் மொழியில் எழுதப்பட்டது",
        "اللُّغَةُ العَرَبِيَّةُ الفُصْحَى",
        "می\u200cخواهم کتاب\u200cها را",
        "ক্ষুদ্র রাজ\u09cd\u200dয",
        "Việt Nam tiếng",
        "naïve Ma\u0308nner",
    ],
)
def test_a_word_stays_whole_with_its_marks_and_joiners(tokenizer: Tokenizer, text: str) -> None:
    words = normalize(text).split(" ")
    assert tokenizer.pre_tokens(text) == [f" {word}" for word in words]


def test_offsets_cut_the_text_into_the_bytes_of_each_piece(tokenizer: Tokenizer) -> None:
    generator = random.Random(4)
    random_texts = [random_text(generator) for _ in range(300)]
    for text in [*TEXTS, *AWKWARD_TEXTS, *random_texts]:
        ids = tokenizer.encode(text)
        normal = normalize(text).encode()
        cut = [normal[start:end] for start, end in tokenizer.offsets(ids)]
        pieces = [tokenizer.piece_bytes(token_id) for token_id in ids]
        assert pieces[0].startswith(b" ")
        assert cut == [pieces[0][1:], *pieces[1:]]  # the space in front is no part of the text


def assert_refused(path: Path, reason: str) -> None:
    with pytest.raises(ModelFolderError, match=reason) as caught:
        Tokenizer.load(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_huge_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    with path.open("wb") as file:
        file.truncate(MAX_FILE_MIB * 2**20 + 1)  # a hole: takes no disk
    assert_refused(path, "larger than the limit of 64 MiB")


@pytest.fixture
def file_with(tokenizer: Tokenizer, tmp_path: Path) -> Callable[..., Path]:
    """Write a good tokenizer, edited, to a file."""

    def write(edit: Callable[[dict[str, Any]], object]) -> Path:
        path = tmp_path / "tokenizer.json"
        content = json.loads(tokenizer.to_json())
        edit(content)
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return write


@pytest.mark.parametrize("number", [10**6, -1, "7"])
def test_ids_that_are_not_in_a_row_are_refused(
    file_with: Callable[..., Path], number: object
) -> None:
    path = file_with(lambda content: content["model"]["vocab"].update(z=number))
    assert_refused(path, "ids are not 0 to n - 1|not a tokenizer file")


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("model", {"type": "WordLevel"}),
        ("model", {"continuing_subword_prefix": "x" * 50}),
        ("model", {"colour": "red"}),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": ""}),
        ("decoder", None),
        ("truncation", {"max_length": 3, "strategy": "LongestFirst", "stride": 0}),
        ("pre_tokenizer", json.loads(pre_tokenizers.ByteLevel().__getstate__())),
        ("added_tokens", [{"id": 2, "content": "<eos>", "special": True, **ADDED_TOKEN_FLAGS}]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_the_right_pieces_with_other_rules_are_refused(
    file_with: Callable[..., Path], part: str, other: Any
) -> None:
    def edit(content: dict[str, Any]) -> None:
        content[part] = content["model"] | other if part == "model" else other

    assert_refused(file_with(edit), "not a hubnmt tokenizer")
