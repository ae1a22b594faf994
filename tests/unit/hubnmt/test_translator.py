"""Translator: nothing of a text is lost, order is kept, company changes nothing.

Where the words of a translation matter, the model is exchanged for a script that knows what to say;
everything else, from plan to beam search and back, is the real thing.
"""

import contextlib
import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hubnmt import engine, translator
from hubnmt.checkpoint import StoredModel
from hubnmt.config import DecodingConfig
from hubnmt.errors import ConfigError, HubUnreachableError, InputError, ModelNotFoundError
from hubnmt.model import Transformer
from hubnmt.tokenizer import Tokenizer, normalize
from hubnmt.translator import Translator, find_model

BOS, EOS, V = 1, 2, 300
Script = Callable[[list[int], tuple[int, ...]], dict[int, float]]
"""(source ids, what was said) to the log-probabilities of what may come; the rest is hopeless."""


def make_scripted_step(script: Script) -> type:
    """Build a stand-in for `ModelStep` that follows a script."""

    class ScriptedStep:
        def __init__(
            self, model: object, src_ids: Tensor, src_pad_mask: Tensor, *, never: Sequence[int]
        ) -> None:
            lengths = (~src_pad_mask).sum(1).tolist()
            rows = zip(src_ids.tolist(), lengths, strict=True)
            self._sources = [row[: n - 1] for row, n in rows]
            self._said: list[list[tuple[int, ...]]] = [[()] for _ in self._sources]

        def __call__(self, last_ids: Tensor) -> Tensor:
            log_probs = torch.full((*last_ids.shape, V), -40.0)
            log_probs[:, :, EOS] = -90.0
            for b, last in enumerate(last_ids.tolist()):
                for w, token in enumerate(last):
                    said = () if token == BOS else (*self._said[b][w], token)
                    self._said[b][w] = said
                    for token_id, log_prob in script(self._sources[b], said).items():
                        log_probs[b, w, token_id] = log_prob
            return log_probs

        def reorder(self, parents: Tensor) -> None:
            pairs = zip(self._said, parents.tolist(), strict=True)
            self._said = [[said[parent] for parent in row] for said, row in pairs]

        def keep(self, rows: Tensor) -> None:
            self._sources = [self._sources[row] for row in rows.tolist()]
            self._said = [list(self._said[row]) for row in rows.tolist()]

    return ScriptedStep


def copy_source(src: list[int], said: tuple[int, ...]) -> dict[int, float]:
    return {[*src, EOS][min(len(said), len(src))]: -0.01}


@pytest.fixture
def stored(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> StoredModel:
    """Random but decided weights: no two continuations are nearly equal."""
    with torch.no_grad():
        for parameter in tiny_model.parameters():
            parameter.copy_(torch.randn_like(parameter) / max(parameter.shape[-1] ** 0.5, 1))
        tiny_model.src_embedding.weight.mul_(2)
    decoding = DecodingConfig(beam_size=3, n_best=2)
    return StoredModel(
        model=tiny_model,
        src_tokenizer=tiny_tokenizer,
        tgt_tokenizer=tiny_tokenizer,
        decoding=decoding,
    )


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nonsense and copies are suspicious, but here they are meant."""
    monkeypatch.setattr(translator, "find_suspicions", lambda **_: [])


@pytest.fixture
def random_model(stored: StoredModel, trusting: None) -> Translator:
    """Says nonsense, the same one each time."""
    return Translator(stored)


@pytest.fixture
def parrot(stored: StoredModel, trusting: None, monkeypatch: pytest.MonkeyPatch) -> Translator:
    """Says what it hears, so what comes out must be what went in."""
    monkeypatch.setattr(engine, "ModelStep", make_scripted_step(copy_source))
    return Translator(stored)


WORDS = [
    *(
        "Hund",
        "läuft,",
        "z. B.",
        "Dr.",
        "Schluss.",
        "Wer?",
        "നായ",
        "狗跑了。",
        "a" * 70,
        "👩\u200d👧",
    ),
    *("e\u0301", "<eos>", "(so)", "…", "1.000,5", "\u200b"),
]
SPACES = [" "] * 30 + ["  ", "\t", "\n", "\r\n", "\r", "\u2028", "\n\n", "\x0c", "\u00a0", "\x85"]


def random_text(seed: str, n_words: int) -> str:
    rng = random.Random(seed)
    return "".join(rng.choice(WORDS) + rng.choice(SPACES) for _ in range(n_words))


# --- nothing is lost -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Ein Hund rennt.",
        "  Ein Hund.  \n\n\tZwei Hunde.\r\n",
        "a\u2028b\u2029c\x85d\x0be\x0cf\rg",
        "\n",
        "Zeile\n",
        "<pad> <eos><bos>",
        " \u3000 Grüße 👩\u200d👧 മല \u200b",
    ],
)
@pytest.mark.parametrize("beam_size", [1, 4])
def test_white_space_and_line_breaks_stay_where_they_were(
    text: str, beam_size: int, parrot: Translator
) -> None:
    translation = parrot.translate(text, beam_size=beam_size)
    assert translation.text == normalize(text)
    assert translation.src == text
    assert translation.warnings == ()


@pytest.mark.parametrize("seed", range(8))
def test_every_word_of_an_over_long_text_reaches_the_translation(
    seed: int, parrot: Translator
) -> None:
    text = random_text(f"long {seed}", 40 + 10 * seed)
    translation = parrot.translate(text)
    assert translation.text == normalize(text)
    (warning,) = translation.warnings
    assert "longer than the 40 tokens" in warning


def test_no_part_is_longer_than_the_model_was_trained_on(
    stored: StoredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: list[int] = []

    def measure(src: list[int], said: tuple[int, ...]) -> dict[int, float]:
        lengths.append(len(src) + 1)
        return copy_source(src, said)

    monkeypatch.setattr(engine, "ModelStep", make_scripted_step(measure))
    Translator(stored).translate(random_text("parts", 120), beam_size=1, guard=False)
    assert 30 < max(lengths) <= 40


def test_the_warning_counts_the_parts_of_the_lines_that_were_cut(parrot: Translator) -> None:
    long = "Ein Hund rennt durch den tiefen Schnee und bellt laut, weil er eine Katze sieht."
    translation = parrot.translate(f"Kurz.\n{long}\nKurz.\n{long}")
    (warning,) = translation.warnings
    assert warning.startswith("2 line(s)")
    assert warning.endswith(f"{translation.src_tokens.count('<eos>') - 2} parts")


@pytest.mark.parametrize("length", [39, 40])
def test_a_line_is_cut_only_if_it_must_be(length: int, parrot: Translator) -> None:
    """39 tokens and eos are 40, which the model has seen."""
    text = "?!" * 80
    while len(parrot.src_tokenizer.encode(text)) > length:
        text = text[:-1]
    assert len(parrot.src_tokenizer.encode(text)) == length
    translation = parrot.translate(text)
    assert translation.text == text
    assert bool(translation.warnings) is (length == 40)


# --- order and company ---------------------------------------------------------------------------

TEXTS = ["Ein Hund rennt.", "", "Zwei Männer stehen.", "x", "  ", "നായ.", "Ja! " * 15]


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sample": True}])
@pytest.mark.parametrize("batch_tokens", [60, 4096])
def test_many_are_the_same_as_one_at_a_time_in_any_order(
    options: dict[str, Any], batch_tokens: int, random_model: Translator
) -> None:
    options = {**options, "max_new_tokens": 7}
    alone = [random_model.translate(text, **options) for text in TEXTS]
    for order in ([0, 1, 2, 3, 4, 5, 6], [6, 3, 1, 5, 0, 4, 2]):
        together = random_model.translate(
            [TEXTS[index] for index in order], batch_tokens=batch_tokens, **options
        )
        for index, translation in zip(order, together, strict=True):
            assert translation.src == TEXTS[index]
            assert translation.text == alone[index].text
            assert translation.score == pytest.approx(alone[index].score, rel=1e-3)


def test_the_order_is_kept(parrot: Translator) -> None:
    texts = [f"Satz Nummer {n}" + "!" * (n * 7 % 11) for n in range(30)]
    assert [each.text for each in parrot.translate(texts)] == texts


@pytest.mark.parametrize("text", ["", " ", "\n", " \t\r\n\u2028"])
def test_an_empty_text_stays_as_it_is(text: str, random_model: Translator) -> None:
    translation = random_model.translate(text)
    assert translation.text == text
    assert translation.src_tokens == translation.tgt_tokens == translation.tgt_log_probs == ()
    assert [each.text for each in translation.n_best] == [text]
    assert translation.warnings == ()


def test_no_texts_give_no_translations(random_model: Translator) -> None:
    assert random_model.translate([]) == []
    assert random_model.translate(()) == []


# --- scores and tokens ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 1},
        {"beam_size": 4},
        {"sample": True, "temperature": 1.5},
        {"no_repeat_ngram_size": 2},
        {"repetition_penalty": 1.05},
        {"prefix": "A dog"},
    ],
    ids=str,
)
def test_token_log_probs_are_those_of_a_replay(
    options: dict[str, Any], random_model: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[tuple[list[int], list[int]]] = []
    decode = random_model.tgt_tokenizer.decode
    search = random_model._engine.search

    def remember(rows: Any, *args: Any, **kwargs: Any) -> Any:
        found = search(rows, *args, **kwargs)
        said.extend((list(row), each[0].ids) for row, each in zip(rows, found, strict=True))
        return found

    monkeypatch.setattr(random_model._engine, "search", remember)
    translation = random_model.translate("Zwei Männer stehen.", length_penalty=1.0, **options)
    ((src, tgt),) = said
    tokenizer = random_model.src_tokenizer
    (replayed,) = translator.score_targets(random_model.model, [(src, tgt)], tokenizer, tokenizer)
    assert " ".join(decode(tgt).splitlines()) == translation.text
    assert translation.tgt_log_probs == pytest.approx(replayed, rel=1e-3, abs=1e-4)
    assert len(translation.tgt_tokens) == len(translation.tgt_log_probs)


def test_the_score_is_the_normalised_sum_of_the_token_log_probs(random_model: Translator) -> None:
    for penalty in (0.0, 1.0, 2.0):
        translation = random_model.translate("Ein Hund", length_penalty=penalty)
        total, n = sum(translation.tgt_log_probs), len(translation.tgt_log_probs)
        assert translation.score == pytest.approx(total / n**penalty, rel=1e-3)


def test_tokens_can_be_read_and_end_with_eos(parrot: Translator) -> None:
    translation = parrot.translate("Ein Hund\nrennt")
    assert "".join(translation.src_tokens) == " Ein Hund<eos> rennt<eos>"
    assert translation.tgt_tokens == translation.src_tokens


def test_given_pairs_are_scored_in_order(random_model: Translator) -> None:
    sources, targets = ["Ein Hund", "Zwei Männer stehen", "x"], ["A dog.", "Two", "a woman in blue"]
    together = random_model.score(sources, targets)
    for src, tgt, pair in zip(sources, targets, together, strict=True):
        alone = random_model.score(src, tgt)
        assert pair.tgt_log_probs == pytest.approx(alone.tgt_log_probs, rel=1e-3)
        assert pair.log_prob == pytest.approx(sum(pair.tgt_log_probs))
        assert "".join(pair.tgt_tokens) == f" {tgt}<eos>"
        assert len(pair.tgt_tokens) == len(pair.tgt_log_probs)


def test_pairs_must_pair_up(random_model: Translator) -> None:
    with pytest.raises(InputError, match="2 sources for 1 targets"):
        random_model.score(["a", "b"], ["c"])
    with pytest.raises(InputError, match="both"):
        random_model.score("a", ["c"])
    with pytest.raises(InputError, match="empty"):
        random_model.score(" ", "c")


def test_attention_belongs_to_the_translation_if_none_is_given(parrot: Translator) -> None:
    maps = parrot.attend("Ein Hund rennt")
    assert maps.tgt_tokens == maps.src_tokens
    given = parrot.attend("Ein Hund rennt", "A dog")
    assert "".join(given.tgt_tokens) == " A dog<eos>"
    torch.testing.assert_close(given.cross.sum(-1), torch.ones(given.cross.shape[:3]))


@pytest.mark.parametrize("text", ["", " ", "\n"])
def test_attention_of_nothing_is_refused(text: str, random_model: Translator) -> None:
    with pytest.raises(InputError, match="empty"):
        random_model.attend(text)


# --- n best --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["Ein Hund rennt.", "Ja! " * 30])
def test_n_best_are_sorted_and_distinct(text: str, random_model: Translator) -> None:
    translation = random_model.translate(text, beam_size=6, n_best=5)
    texts, scores = zip(*translation.n_best, strict=True)
    assert len(set(texts)) == len(texts) == 5
    assert list(scores) == sorted(scores, reverse=True)
    assert (texts[0], scores[0]) == (translation.text, translation.score)


def test_two_spellings_of_one_text_are_one_candidate(
    stored: StoredModel, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merged piece and the bytes it was merged from read the same; the better one counts."""
    piece_of = {tiny_tokenizer.piece_bytes(token_id): token_id for token_id in range(3, V)}
    whole, second, other = piece_of[b"in"], piece_of[b"n"], piece_of[b"x"]
    first = piece_of[b"i"]

    def script(src: list[int], said: tuple[int, ...]) -> dict[int, float]:
        if not said:
            return {whole: -0.5, first: -1.2, other: -2.5}
        return {second: -0.01} if said == (first,) else {EOS: -0.01}

    monkeypatch.setattr(engine, "ModelStep", make_scripted_step(script))
    options = {"beam_size": 4, "n_best": 2, "length_penalty": 0.0}
    translation = Translator(stored).translate("x", guard=False, **options)
    assert [each.text for each in translation.n_best] == ["in", "x"]
    assert [each.score for each in translation.n_best] == pytest.approx([-0.51, -2.51])


def test_as_many_are_returned_as_were_asked_for(random_model: Translator) -> None:
    counts = [
        len(random_model.translate("Ein Hund", **options).n_best)
        for options in (
            {},
            {"n_best": 1},
            {"beam_size": 1},
            {"beam_size": 7, "n_best": 7},
            {"sample": True, "n_best": 4, "temperature": 3.0},
        )
    ]
    assert counts == [2, 1, 1, 7, 4]


# --- options -------------------------------------------------------------------------------------


def test_a_cap_is_kept_and_reported(random_model: Translator) -> None:
    translation = random_model.translate("Ein Hund rennt im Schnee.", max_new_tokens=3)
    assert len(translation.tgt_tokens) == 4
    assert translation.tgt_tokens[-1] == "<eos>"
    (warning,) = translation.warnings
    assert "max_new_tokens" in warning


def test_no_option_is_silently_ignored(random_model: Translator) -> None:
    plain = random_model.translate("Ein Hund rennt im Schnee.")
    for options in (
        {"beam_size": 9},
        {"length_penalty": -2.0},
        {"sample": True},
        {"max_new_tokens": 2},
        {"prefix": "Two men"},
        {"no_repeat_ngram_size": 1},
        {"repetition_penalty": 9.0},
    ):
        assert random_model.translate(plain.src, **options).n_best != plain.n_best, options
    drawn = random_model.translate(plain.src, sample=True)
    for options in ({"temperature": 0.01}, {"top_k": 1}, {"top_p": 0.01}, {"seed": 1}):
        text = random_model.translate(plain.src, sample=True, **options).text
        assert text != drawn.text, options


def test_the_same_seed_gives_the_same_text(random_model: Translator) -> None:
    texts = [
        random_model.translate("Ein Hund", sample=True, seed=seed).text for seed in (5, 6, 5, 6)
    ]
    assert texts[:2] == texts[2:]
    assert texts[0] != texts[1]


@pytest.mark.parametrize("prefix", ["Two men", "A do", "മഞ്ഞ", "Two men, "])
@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sample": True}])
def test_a_translation_begins_with_its_prefix(
    prefix: str, options: dict[str, Any], random_model: Translator
) -> None:
    for text in ("Ein Hund", "Ja! " * 30):
        assert random_model.translate(text, prefix=prefix, **options).text.startswith(prefix)


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sample": True}], ids=str)
def test_a_prefix_that_repeats_itself_and_no_repetition_have_an_answer(
    options: dict[str, Any], random_model: Translator
) -> None:
    """Both cannot be had: an error or a warning will do, a crash or an endless search will not."""
    asked = {"prefix": "dog dog dog dog", "no_repeat_ngram_size": 1, **options}
    with contextlib.suppress(ConfigError, InputError):
        translation = random_model.translate("Ein Hund", **asked)
        assert translation.text.startswith("dog dog dog dog") or translation.warnings


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beam_sise": 3}, ["'beam_sise'", "did you mean 'beam_size'"]),
        ({"beam": 3}, ["'beam'", "beam_size"]),
        ({"beam_size": 0}, ["beam_size = 0", "1 to 256"]),
        ({"beam_size": "5"}, ["beam_size = '5'", "int"]),
        ({"beam_size": None}, ["beam_size = None", "int"]),
        ({"beam_size": 2.5}, ["beam_size = 2.5", "int"]),
        ({"length_penalty": float("nan")}, ["length_penalty"]),
        ({"length_penalty": 10**400}, ["length_penalty"]),
        ({"n_best": 4, "beam_size": 3}, ["n_best = 4", "beam_size = 3"]),
        ({"n_best": 2, "beam_size": 1}, ["n_best = 2", "beam_size = 1"]),
        ({"max_new_tokens": 0}, ["max_new_tokens = 0"]),
        ({"temperature": 0}, ["temperature = 0"]),
        ({"prefix": 5}, ["prefix = 5", "str"]),
        ({"beam_size": -1, "top_p": 2.0}, ["beam_size = -1", "top_p = 2.0"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_options_are_refused_by_name(
    options: dict[str, Any], words: list[str], random_model: Translator
) -> None:
    with pytest.raises(ConfigError) as caught:
        random_model.translate("Ein Hund", **options)
    assert [word for word in words if word not in str(caught.value)] == []


def test_bad_options_are_refused_even_without_a_text(random_model: Translator) -> None:
    with pytest.raises(ConfigError, match="beam_size"):
        random_model.translate([], beam_size=0)


def test_options_left_out_come_with_the_model(stored: StoredModel) -> None:
    wide = Translator(stored)
    assert wide.decoding.beam_size == 3
    explicit = wide.translate("Ein Hund rennt.", beam_size=3, n_best=2, length_penalty=1.0)
    assert wide.translate("Ein Hund rennt.") == explicit


# --- suspicions ----------------------------------------------------------------------------------


def test_a_loop_is_tried_again_and_reported(
    stored: StoredModel, tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters = [tiny_tokenizer.encode(letter)[-1] for letter in "!abcdefghijklmnopqrst"]

    def loop(src: list[int], said: tuple[int, ...]) -> dict[int, float]:
        """Twenty exclamation marks; what does not repeat is a little less probable."""
        if len(said) == 20:
            return {EOS: -0.01}
        return {letters[0]: -0.1, letters[1 + len(said)]: -1.0}

    monkeypatch.setattr(engine, "ModelStep", make_scripted_step(loop))
    mended = Translator(stored).translate("Ein Hund rennt.")
    assert "!!!!" not in mended.text
    (warning,) = mended.warnings
    assert "repeats itself" in warning
    assert "again" in warning
    free = Translator(stored).translate("Ein Hund rennt.", guard=False)
    assert free.text == "!" * 20
    assert free.warnings == ()


def test_what_cannot_be_mended_is_kept_and_reported(
    stored: StoredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "ModelStep", make_scripted_step(lambda *_: {EOS: -0.01}))
    translation = Translator(stored).translate("Ein kleiner Hund rennt.")
    assert translation.text == ""
    (warning,) = translation.warnings
    assert "far shorter" in warning


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("no_repeat_ngram_size", 2),
        ("length_penalty", 0.3),
        ("beam_size", 9),
        ("max_new_tokens", 30),
    ],
)
def test_a_second_try_keeps_what_was_asked_for(
    option: str, value: float, stored: StoredModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Translator(stored)
    asked: list[DecodingConfig] = []
    search = model._engine.search

    def remember(rows: Any, decoding: DecodingConfig, **options: Any) -> Any:
        asked.append(decoding)
        return search(rows, decoding, **options)

    monkeypatch.setattr(translator, "find_suspicions", lambda **_: ["is odd"])
    monkeypatch.setattr(model._engine, "search", remember)
    model.translate("Ein Hund", **{option: value})
    assert len(asked) == 2
    assert [getattr(each, option) for each in asked] == [value, value]


# --- streams and alternatives --------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True}], ids=str)
def test_a_stream_ends_with_the_translation(
    options: dict[str, Any], random_model: Translator
) -> None:
    text = "Ein Hund.\n\n  Zwei Männer."
    *_, last = random_model.stream(text, max_new_tokens=9, **options)
    assert last == random_model.translate(text, max_new_tokens=9, **options).text


def test_a_greedy_stream_only_grows_and_shows_whole_characters(parrot: Translator) -> None:
    shown = list(parrot.stream("Grüße, മലയാളം", beam_size=1))
    assert len(shown) > 5
    assert all(later.startswith(sooner) for sooner, later in itertools.pairwise(shown))
    assert not any("\ufffd" in text for text in shown)


def test_alternatives_are_the_most_probable_next_pieces(random_model: Translator) -> None:
    found = random_model.alternatives("Ein Hund", k=4)
    probabilities = [each.probability for each in found]
    assert len(found) == 4
    assert probabilities == sorted(probabilities, reverse=True)
    assert 0 < sum(probabilities) <= 1
    for each in found:
        assert each.piece.startswith("<") or each.text.startswith(each.piece.strip())


def test_alternatives_go_on_from_the_prefix(parrot: Translator) -> None:
    found = parrot.alternatives("Ein Hund", "A do", k=4)
    assert 1 <= len(found) <= 4
    assert [each.text for each in found if not each.text.startswith("A do")] == []


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [5, None, b"Ein Hund", ["Ein", 5], ["a", None], [b"x"]], ids=str)
def test_what_is_no_text_is_refused(text: Any, random_model: Translator) -> None:
    with pytest.raises(InputError, match="string"):
        random_model.translate(text)


def test_half_a_character_is_refused(random_model: Translator) -> None:
    """A lone surrogate is how Python carries bytes that were not UTF-8; it has no UTF-8 itself."""
    with pytest.raises(InputError):
        random_model.translate("Ein H\udcfcnd")


def test_a_text_beyond_the_limit_is_refused(random_model: Translator) -> None:
    with pytest.raises(InputError, match=r"1,000,001 characters.*limit of 1,000,000"):
        random_model.translate("x" * 1_000_001)


# --- models and devices --------------------------------------------------------------------------


def test_save_and_load_translate_alike(random_model: Translator, tmp_path: Path) -> None:
    random_model.save_pretrained(tmp_path / "model")
    loaded = Translator.from_pretrained(tmp_path / "model")
    assert loaded.translate(TEXTS) == random_model.translate(TEXTS)
    assert loaded.config == random_model.config
    assert loaded.card == random_model.card
    assert Translator.from_pretrained(str(tmp_path / "model")).translate("x").text


def test_a_bundled_name_comes_first_then_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("de-en-x", "mine"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(translator, "bundled_models", lambda: {"de-en-x": Path("/inside")})
    assert find_model("de-en-x") == Path("/inside")
    assert find_model("mine").resolve() == tmp_path / "mine"
    assert find_model("./de-en-x").resolve() == tmp_path / "de-en-x"
    assert find_model(tmp_path / "mine") == tmp_path / "mine"


@pytest.mark.parametrize(
    "name",
    ["de-en", "./nowhere", "a/b/c", "~nobody-has-this-name/model", "a\0b", "x" * 5000, "\n"],
    ids=lambda name: repr(name[:20]),
)
def test_an_unknown_model_names_what_there_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translator, "bundled_models", lambda: {"de-en-x": Path("/inside")})
    with pytest.raises(ModelNotFoundError, match="de-en-x"):
        Translator.from_pretrained(name)


def test_a_folder_that_is_not_there_may_be_on_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubUnreachableError, match="no folder 'runs/best' here, and cannot reach"):
        Translator.from_pretrained("runs/best")


def test_a_folder_has_no_revisions(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no revisions"):
        Translator.from_pretrained(tmp_path, revision="v1")


@pytest.mark.parametrize("device", ["gpu", "", "cuda:99", "mps", "xpu", "vulkan", "cpu:x"])
def test_a_device_that_is_not_there_is_refused(device: str, stored: StoredModel) -> None:
    if device == "mps" and torch.backends.mps.is_available():
        pytest.skip("this machine has one")
    with pytest.raises(ConfigError, match=f"device = {device!r}.*'cpu'"):
        Translator(stored, device=device)


def test_an_unknown_precision_is_refused(stored: StoredModel) -> None:
    with pytest.raises(ConfigError, match=r"float64.*bfloat16"):
        Translator(stored, dtype="float64")


@pytest.mark.parametrize(("dtype", "error"), [("bfloat16", 0.05), ("float16", 0.01)])
def test_half_precision_scores_nearly_the_same(
    dtype: str, error: float, stored: StoredModel
) -> None:
    exact = Translator(stored).score("Ein Hund rennt.", "A dog is running.")
    half = Translator(stored, dtype=dtype).score("Ein Hund rennt.", "A dog is running.")
    assert half.log_prob == pytest.approx(exact.log_prob, rel=error)
    assert Translator(stored, dtype=dtype).translate("Ein Hund rennt.").text
