"""Protected spans: what is one, and that finding them takes time in proportion to the text."""

import time

import pytest

from hubnmt.text.protected_spans import (
    PLACEHOLDERS,
    choose_spans,
    find_spans,
    protect,
    unmark_times,
)


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("Run `pip install x` now.", ["`pip install x`"]),
        (
            "See https://example.org/a?b=1, or „www.example.com“.",
            ["https://example.org/a?b=1", "www.example.com"],
        ),
        ("Write to anna.b@example.co.uk.", ["anna.b@example.co.uk"]),
        ("Thanks @anna.b, #hello and @ben@example.social!", None),
        ("Yes 👍🏽 👨‍👩‍👧 🇩🇪 ❤️!", ["👍🏽", "👨‍👩‍👧", "🇩🇪", "❤️"]),
        ("At 9:30 or 12:05:59.", ["9:30", "12:05:59"]),
        ("On 3.4.2020 and 2020-04-03.", ["3.4.2020", "2020-04-03"]),
        ("Flight LH456 from gate B-12 to the G20-Gipfel.", ["LH456", "B-12", "G20"]),
        ("In 1984 he paid 1,250.50 or 12.5.", ["1984", "1,250.50", "12.5"]),
        ("3.500,50 € von 1\u00a0000\u00a0000", ["3.500,50", "1\u00a0000\u00a0000"]),
        ("der 100. Geburtstag am 3. Mai, 1990. Und 100.", ["1990", "100"]),
        ("12 men, 7 dogs, the 1990s, 100km, C# and USB.", []),
    ],
)
def test_spans_are_found(text: str, spans: list[str] | None) -> None:
    expected = ["@anna.b", "#hello", "@ben@example.social"] if spans is None else spans
    assert find_spans(text) == expected


def test_equal_spans_share_a_placeholder_and_the_ninth_stays() -> None:
    text = " ".join(["101", *(str(number) for number in range(101, 110))])
    spans = choose_spans(text)
    assert protect(text, spans) == " ".join([PLACEHOLDERS[0], *PLACEHOLDERS, "109"])
    assert protect(protect(text, spans), spans) == protect(text, spans)


@pytest.mark.parametrize(
    "unit", ["a", "1", "A1", "1.", "1-", "@a.", "http://", "a@b", "`", "🎉", "."]
)
def test_spans_are_found_in_linear_time(unit: str) -> None:
    started = time.process_time()
    find_spans(unit * 50_000 + "!")
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("At 2:30 p.m. today.", "At 14:30 today."),
        ("We meet at 2:30 p.m.", "We meet at 14:30."),
        ("12:10 AM or 12:10pm?", "0:10 or 12:10?"),
        ("um 14:30 Uhr.", "um 14:30."),
        ("Um halb acht, Halb eins; halb achtzig", "Um 7:30, 12:30; halb achtzig"),
        ("at 9:30 amid, 9:75 Uhr, 1:2:30 Uhr", "at 9:30 amid, 9:75 Uhr, 1:2:30 Uhr"),
    ],
)
def test_marked_times_become_those_of_24_hours(text: str, expected: str) -> None:
    assert unmark_times(text) == expected
