"""Names and numbers change on both sides alike, or not at all."""

import re

import pytest

from training.data.synthetic_names import exchange_names


def change(src: str, tgt: str) -> tuple[str, str]:
    return exchange_names(src, tgt, share=1.0)


@pytest.mark.parametrize(
    ("src", "tgt"),
    [
        ("Ich habe Thomas gesehen.", "I saw NAME."),
        ("Thomas schläft, glaube ich.", "I think NAME is asleep."),
        ("Welche gehören Anna?", "Which are NAME's?"),
        ("Wo ist José heute?", "Where is NAME today?"),
    ],
)
def test_a_name_is_another_on_both_sides(src: str, tgt: str) -> None:
    (name,) = {"Thomas", "Anna", "José"} & set(re.findall(r"\w+", src))
    changed = change(src, tgt.replace("NAME", name))
    (other,) = re.findall(re.escape(tgt).replace("NAME", r"(\w+)"), changed[1])
    assert changed == (src.replace(name, other), tgt.replace("NAME", other))
    assert other != name
    assert other.istitle()


@pytest.mark.parametrize(
    ("src", "tgt"),
    [
        ("In der Nacht war es kalt.", "In the night it was cold."),  # a capital begins a sentence
        ("Er kommt. In der Nacht.", "He comes. In the night."),
        ("Ich sah Anna und Anna.", "I saw Anna twice."),  # not equally often
        ("Das ist Toms Hund.", "That is Tom's dog."),
        ("Ein Hotel am Meer.", "A hotel by the sea."),
        ("die NATO und Ed", "the NATO and Ed"),  # capitals throughout, and too short
        ("Es war 1 Uhr.", "It was 1 o'clock."),
        ("der 3te Tag", "the 3rd day"),
        ("Это Анна.", "то Анна."),  # made-up names are Latin
        ("നന്ദി", "Thanks"),
    ],
)
def test_what_is_no_name_stays(src: str, tgt: str) -> None:
    assert change(src, tgt) == (src, tgt)


def test_the_share_is_of_the_pairs_and_the_choice_hangs_on_the_pair() -> None:
    pairs = [(f"Ich sah Anna {n} Mal.", f"I saw Anna {n} times.") for n in range(2, 1002)]
    first = [exchange_names(*pair, share=0.3) for pair in pairs]
    changed = sum(new != pair for new, pair in zip(first, pairs, strict=True))
    assert 230 < changed < 370
    assert first == [exchange_names(*pair, share=0.3) for pair in pairs]
    assert [exchange_names(*pair, share=0.0) for pair in pairs] == pairs
    assert len({re.split(" ", new[0])[2] for new in first}) > 200
