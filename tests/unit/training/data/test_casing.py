"""What people leave out when they type."""

import pytest

from training.data.casing import as_typed


def change(src: str, tgt: str, *, drop: float = 0.0, lower: float = 0.0) -> tuple[str, str]:
    return as_typed(src, tgt, drop_final_mark=drop, lowercase_src=lower)


@pytest.mark.parametrize(
    ("pair", "expected"),
    [
        (("Guten Morgen.", "Good morning."), ("Guten Morgen", "Good morning")),
        (("Wie geht's?", "How are you?!"), ("Wie geht's", "How are you")),
        (("Ach so …", "I see..."), ("Ach so", "I see")),
        (("Où vas-tu ?", "Where to?"), ("Où vas-tu", "Where to")),
        (("वह दौड़ता है।", "He runs."), ("वह दौड़ता है", "He runs")),
        (("走れ。", "Run!"), ("走れ", "Run")),
        (("Guten Morgen", "Good morning."), ("Guten Morgen", "Good morning.")),
        (("Er sagte: „Ja.“", "He said yes."), ("Er sagte: „Ja.“", "He said yes.")),
        (("?!", "?!"), ("?!", "?!")),
        (("3.5. 4", "3.5. 4"), ("3.5. 4", "3.5. 4")),
    ],
)
def test_a_final_mark_goes_from_both_sides_or_from_none(
    pair: tuple[str, str], expected: tuple[str, str]
) -> None:
    assert change(*pair, drop=1.0) == expected
    assert change(*pair) == pair


def test_a_share_is_a_share_and_the_two_are_chosen_apart() -> None:
    pairs = [(f"Satz Nummer {n}.", f"Sentence number {n}.") for n in range(4000)]
    changed = [change(*pair, drop=0.3, lower=0.5) for pair in pairs]
    assert changed == [change(*pair, drop=0.3, lower=0.5) for pair in pairs]
    bare = [not tgt.endswith(".") for _, tgt in changed]
    small = [src.islower() for src, _ in changed]
    both = [a and b for a, b in zip(bare, small, strict=True)]
    for chosen, share in ((bare, 0.3), (small, 0.5), (both, 0.15)):
        assert sum(chosen) / len(pairs) == pytest.approx(share, abs=0.03)
