"""From text to translation: nothing is lost, order is kept, batches change nothing."""

import itertools
import math
import random
from typing import Any

import pytest
import torch

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.decoding.search import Hypothesis
from hubnmt.pipeline.pipeline import best_combinations
from hubnmt.text.characters import normalize, single_spaced
from hubnmt.text.tokenizer import Tokenizer
from hubnmt.translator import Translator

WORDS = ["Hund", "läuft,", "z. B.", "Dr.", "Schluss.", "Wer?", "നായ", "狗跑了。", "a" * 70]
WORDS += ["👩\u200d👧", "e\u0301", "<eos>", "(so)", "…", "1.000,5", "\u200b"]
SPACES = [" "] * 30 + ["  ", "\t", "\n", "\r\n", "\r", "\u2028", "\n\n", "\x0c", "\u00a0", "\x85"]


def random_text(seed: str, n_words: int) -> str:
    rng = random.Random(seed)
    return "".join(rng.choice(WORDS) + rng.choice(SPACES) for _ in range(n_words))


def test_every_word_of_an_over_long_text_reaches_the_translation(
    copying_model: Translator,
) -> None:
    text = random_text("long", 80)
    translation = copying_model.translate(text, guard=False)
    found, wanted = (
        [single_spaced(line) for line in each.splitlines()]
        for each in (translation.text, normalize(text))
    )
    assert found == wanted
    (warning,) = translation.warnings
    assert "longer than the 40 tokens" in warning


TEXTS = ["Ein Hund rennt.", "", "Zwei Männer stehen.", "x", "  ", "നായ.", "Ja! " * 15]


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sample": True}])
def test_many_are_the_same_as_one_at_a_time_in_any_order(
    options: dict[str, Any], random_model: Translator
) -> None:
    options = {**options, "max_new_tokens": 7}
    alone = [random_model.translate(text, **options) for text in TEXTS]
    for order in ([0, 1, 2, 3, 4, 5, 6], [6, 3, 1, 5, 0, 4, 2]):
        texts = [TEXTS[index] for index in order]
        together = random_model.translate(texts, max_batch_tokens=60, **options)
        for index, translation in zip(order, together, strict=True):
            assert translation.src == TEXTS[index]
            assert translation.text == alone[index].text
            assert translation.score == pytest.approx(alone[index].score, rel=1e-3)


@pytest.mark.parametrize("text", ["", " ", "\n", " \t\r\n\u2028"])
def test_an_empty_text_stays_as_it_is(text: str, random_model: Translator) -> None:
    translation = random_model.translate(text)
    assert translation.text == text
    assert translation.src_tokens == translation.tgt_tokens == translation.tgt_log_probs == ()
    assert [each.text for each in translation.n_best] == [text]
    assert translation.warnings == ()
    assert random_model.translate([]) == []


@pytest.mark.parametrize(
    ("n_marks", "signs"), [(20, "repeats itself"), (90, "repeats itself and does not end")]
)
def test_a_loop_is_tried_again_and_reported(
    n_marks: int, signs: str, position_model: StoredModel, tiny_tokenizer: Tokenizer
) -> None:
    """Exclamation marks; what does not repeat, or ends before them, is a little less probable."""
    mark, *letters = (tiny_tokenizer.encode(letter)[-1] for letter in "!abcdefghijklmnopqrst")
    model = position_model.model
    wanted = torch.zeros(91, model.config.tgt_vocab_size)  # logits at each position
    wanted[:n_marks, mark] = 21
    wanted[range(20), letters] = 20
    wanted[[21, 28, n_marks], tiny_tokenizer.eos_id] = torch.tensor([20.0, 20.0, 21.0])
    model.positions.table[:128] = torch.eye(128)  # sinusoids are too much alike to solve for
    hidden = model.decoder.final_norm(model.positions.table[:91])  # (T, D)
    model.output_proj.weight = torch.nn.Parameter((torch.linalg.pinv(hidden) @ wanted).T)
    mended = Translator(position_model).translate("Ein Hund rennt.")
    assert "!!!!" not in mended.text
    assert mended.warnings == (
        f"the first translation {signs}: translated again with other settings",
    )
    free = Translator(position_model).translate("Ein Hund rennt.", guard=False)
    assert free.text == "!" * min(n_marks, 2 * (len(free.src_tokens) - 1) + 10)
    assert bool(free.warnings) == (n_marks > 20)


@pytest.mark.parametrize("prefix", ["", "A dog. Two"])
@pytest.mark.parametrize("n_together", [1, 3, 100])
@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 2}, {"sample": True}], ids=str)
def test_a_stream_ends_with_and_returns_what_translate_does(
    options: dict[str, Any], n_together: int, prefix: str, random_model: Translator
) -> None:
    text = "Ein Hund.\n\n  Zwei Männer. Wer?\nEin Hund rennt. Ja."
    options = {"max_new_tokens": 9, "prefix": prefix, **options}
    stream, shown = random_model.stream(text, n_together=n_together, **options), []
    while True:
        try:
            shown.append(next(stream))
        except StopIteration as end:
            returned = end.value
            break
    expected = random_model.translate(text, **options)
    for name in ("src", "text", "tgt_tokens", "sentences", "warnings"):
        assert getattr(returned, name) == getattr(expected, name)
    assert returned.tgt_log_probs == pytest.approx(expected.tgt_log_probs, rel=1e-3)
    assert shown[-1] == returned.text
    if n_together > 1 and not prefix:  # after each group, and at the end
        assert len(dict.fromkeys(shown)) == 1 + math.ceil(5 / n_together)


def test_a_greedy_stream_only_grows_and_shows_whole_characters(copying_model: Translator) -> None:
    shown = list(copying_model.stream("Grüße, മലയാളം", beam_size=1))
    assert len(shown) > 5
    assert all(later.startswith(sooner) for sooner, later in itertools.pairwise(shown))
    assert not any("\ufffd" in text for text in shown)


@pytest.mark.parametrize("seed", range(6))
def test_combinations_are_those_of_trying_all(seed: int) -> None:
    rng = random.Random(seed)
    found = [
        sorted(
            (Hypothesis([n], 0.0, rng.uniform(-3, 0), ()) for n in range(rng.randint(1, 4))),
            key=lambda each: -each.score,
        )
        for _ in range(1 + seed)
    ]
    totals = sorted((sum(e.score for e in way) for way in itertools.product(*found)), reverse=True)
    for n in (1, 3, 50):
        chosen = best_combinations(found, n)
        mine = [sum(each.score for each in choice) for choice in chosen]
        assert mine == pytest.approx(totals[:n])
        assert len({tuple(each.ids[0] for each in choice) for choice in chosen}) == len(chosen)


FIRST_LINE = "Ein Hund.  Zwei Männer!\tWer?"
PARAGRAPHS = f" {FIRST_LINE}\r\n\n\nNa ja. Am 3. Mai.\u2028Ende "


@pytest.mark.parametrize(("split", "n_sentences"), [(True, 6), (False, 3)])
def test_sentences_are_translated_apart_and_linked_to_their_sources(
    split: bool, n_sentences: int, copying_model: Translator
) -> None:
    translation = copying_model.translate(PARAGRAPHS, split=split, guard=False)
    spaced = PARAGRAPHS.replace(FIRST_LINE, single_spaced(FIRST_LINE))
    assert translation.text == (PARAGRAPHS if split else spaced)
    assert translation.src_tokens.count("<eos>") == len(translation.sentences) == n_sentences
    for pair in translation.sentences:
        src, tgt = PARAGRAPHS[slice(*pair.src)], translation.text[slice(*pair.tgt)]
        assert single_spaced(src) == tgt != ""
        assert src == src.strip()
    decomposed = copying_model.translate("Die Ma\u0308nner.  Der Ha\u0308r!")
    assert [pair.src for pair in decomposed.sentences] == [(0, 12), (14, 23)]
    assert [pair.tgt for pair in decomposed.sentences] == [(0, 11), (13, 21)]


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sample": True}], ids=str)
@pytest.mark.parametrize("prefix", ["A dog", "A dog.  Two me", "A dog. Two! Who? And"])
def test_the_text_begins_with_a_prefix_of_several_sentences(
    prefix: str, options: dict[str, Any], random_model: Translator
) -> None:
    text = "Ein Hund. Zwei Männer! Wer?\nEnde."
    plain = random_model.translate(text, **options)
    bound = random_model.translate(text, prefix=prefix, **options)
    assert bound.text.startswith(prefix)
    assert bound.text.split("\n")[-1] == plain.text.split("\n")[-1]
    assert len(bound.sentences) == 4
    for candidate in bound.n_best:
        assert candidate.text.startswith(prefix)
