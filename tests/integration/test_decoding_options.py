"""Decoding options as a user meets them: a model that has learned a little, from text to text.

It knows a few farm sentences after two seconds of training. Where single bytes matter, a script
takes the model's place; everything between it and the text is the real thing.
"""

import itertools
import math
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from hubnmt.config import DecodingConfig
from hubnmt.errors import ConfigError, HubNMTError, InputError
from hubnmt.inference import engine as engine_module
from hubnmt.model.batching import batch_sources
from hubnmt.pipeline import fallback as retry_module
from hubnmt.translator import Translator
from hubnmt.types import PairScore
from training.train import main

GREEDY = {"beam_size": 1}
BEAM = {"beam_size": 4}
SAMPLE = {"sample": True, "seed": 3}
STRATEGIES = pytest.mark.parametrize("strategy", [GREEDY, BEAM, SAMPLE], ids=str)
SETTINGS = [
    *("run.max_steps=150", "run.eval_every=150", "run.average_last=1", "run.log_every=150"),
    *("model.d_model=32", "model.n_heads=4", "model.d_ff=64", "model.n_decoder_layers=1"),
    *("model.dropout=0.0", "model.attention_dropout=0.0", "model.ff_dropout=0.0"),
    *("optimizer.accumulate=1", "optimizer.warmup_steps=30"),
]


@pytest.fixture(scope="module")
def folder(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder, trained here."""
    fixtures, runs = repo / "tests" / "fixtures", tmp_path_factory.mktemp("runs")
    files = [
        f"data.{split}={fixtures / f'farm.{split}.de'},{fixtures / f'farm.{split}.en'}"
        for split in ("train", "valid")
    ]
    words = [f"--set={text}" for text in [f"run.folder={runs}", *files, *SETTINGS]]
    assert main([str(fixtures / "farm.toml"), *words]) == 0
    return runs / "farm" / "best"


@pytest.fixture(scope="module")
def trained(folder: Path) -> Translator:
    """The model without the recipe's own cap on the length."""
    translator = Translator.from_pretrained(folder)
    translator.decoding = DecodingConfig(beam_size=4)
    return translator


@pytest.fixture(scope="module")
def sources(repo: Path) -> list[str]:
    path = repo / "tests" / "fixtures" / "farm.valid.de"
    return path.read_text(encoding="utf-8").splitlines()


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) - before == set()


class SpellingStep:
    """Stands in for `ModelStep`: says a list of ids, then ends; all else is hopeless."""

    ids: Sequence[int] = ()
    vocab_size = 0
    seconds_per_step = 0.0
    n_calls = 0

    def __init__(self, *_: object, **__: object) -> None:
        self._n_said = 0

    def __call__(self, last_ids: Tensor) -> Tensor:
        cls = type(self)
        cls.n_calls += 1
        time.sleep(cls.seconds_per_step)
        log_probs = torch.full((*last_ids.shape, cls.vocab_size), -60.0)
        log_probs[..., :2] = -torch.inf
        log_probs[..., [*cls.ids, 2][min(self._n_said, len(cls.ids))]] = -0.01
        self._n_said += 1
        return log_probs

    def reorder(self, parents: Tensor) -> None:
        pass

    def keep(self, rows: Tensor) -> None:
        pass


@pytest.fixture
def spell(trained: Translator, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make the model say given bytes, one at a time."""
    tokenizer = trained.tokenizers.tgt
    byte_ids = {tokenizer.piece_bytes(i): i for i in range(3, tokenizer.vocab_size)}

    def say(raw: bytes, *, seconds_per_step: float = 0.0) -> type[SpellingStep]:
        class Spelling(SpellingStep):
            pass

        Spelling.ids = [byte_ids[bytes([byte])] for byte in b" " + raw]
        Spelling.vocab_size = tokenizer.vocab_size
        Spelling.seconds_per_step = seconds_per_step
        monkeypatch.setattr(engine_module, "ModelStep", Spelling)
        return Spelling

    return say


# --- prefix --------------------------------------------------------------------------------------

PREFIXES = [
    "The",
    "Th",
    "A frog ",
    "Yesterday, the cow slee",
    "7 Gänse und 1",
    "ഒരു നായ",
    "👩\u200d👧 wa",
    "The cow waits today. And it waits and waits and waits, for ever and ever, until the evenin",
    " ",
    "  ",
    " The",
    " The cow",
    "The  cow\twai",
    "<eos>",
    "The <bos> <pad> c",
]


@STRATEGIES
@pytest.mark.parametrize("prefix", PREFIXES, ids=ascii)
def test_a_translation_begins_with_the_prefix(
    prefix: str, strategy: dict[str, Any], trained: Translator, sources: list[str]
) -> None:
    for translation in trained.translate(sources[:3], prefix=prefix, **strategy):
        assert translation.text.startswith(prefix)
        assert all(each.text.startswith(prefix) for each in translation.n_best)


@STRATEGIES
@pytest.mark.parametrize("prefix", ["The cow\nwai", "The\u2028cow", "\nThe", "The\r\n"], ids=ascii)
def test_a_line_break_in_a_prefix_is_said_or_refused(
    prefix: str, strategy: dict[str, Any], trained: Translator, sources: list[str]
) -> None:
    """A line stays a line, so it cannot be had both ways; but it is not quietly another text."""
    try:
        translation = trained.translate(sources[0], prefix=prefix, **strategy)
    except HubNMTError as error:
        said = str(error)
    else:
        said = "prefix" if translation.text.startswith(prefix) else str(translation.warnings)
    assert "prefix" in said


def test_demanding_what_greedy_says_anyway_changes_nothing(
    trained: Translator, sources: list[str]
) -> None:
    """Cut at every character, inside pieces and words."""
    for src in sources[:4]:
        natural = trained.translate(src, beam_size=1).text
        for cut in range(1, len(natural) + 1):
            assert trained.translate(src, beam_size=1, prefix=natural[:cut]).text == natural


def test_the_prefix_is_normalised_as_all_text_is(trained: Translator, sources: list[str]) -> None:
    apart, composed = "The Ga\u0308nse", "The Gänse"
    translation = trained.translate(sources[0], prefix=apart)
    assert translation == trained.translate(sources[0], prefix=composed)
    assert translation.text.startswith(composed)


@STRATEGIES
def test_the_prefix_begins_the_text_and_binds_no_other_part(
    strategy: dict[str, Any], trained: Translator, sources: list[str]
) -> None:
    text = "\n".join(sources[:3])
    plain = trained.translate(text, **strategy).text.split("\n")
    bound = trained.translate(text, prefix="Perhaps", **strategy).text.split("\n")
    assert bound[0].startswith("Perhaps")
    assert bound[1:] == plain[1:]


def test_every_text_of_many_begins_with_the_prefix(trained: Translator, sources: list[str]) -> None:
    together = trained.translate(sources, prefix="Look, the")
    assert [each.text for each in together] == [
        trained.translate(src, prefix="Look, the").text for src in sources
    ]
    assert all(each.text.startswith("Look, the") for each in together)


# --- sampling ------------------------------------------------------------------------------------


def test_a_seed_says_the_same_in_another_process_place_and_company(
    trained: Translator, folder: Path, sources: list[str]
) -> None:
    options: dict[str, Any] = {"sample": True, "temperature": 0.6, "n_best": 3, "guard": False}
    found = [each.n_best for each in trained.translate(sources, seed=11, **options)]
    torch.manual_seed(1)
    again = Translator.from_pretrained(folder)
    again.decoding = trained.decoding
    for src, candidates in reversed(list(zip(sources, found, strict=True))):
        alone = again.translate(src, seed=11, **options).n_best
        assert [each.text for each in alone] == [each.text for each in candidates]
        scores = [each.score for each in candidates]
        assert [each.score for each in alone] == pytest.approx(scores, rel=1e-4)
    other = trained.translate(sources, seed=12, **options)
    assert [each.n_best for each in other] != found


@pytest.mark.parametrize("narrow", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-4}], ids=str)
def test_the_narrowest_sampling_is_greedy(
    narrow: dict[str, Any], trained: Translator, sources: list[str]
) -> None:
    drawn = trained.translate(sources, sample=True, **narrow)
    greedy = trained.translate(sources, beam_size=1)
    assert [each.text for each in drawn] == [each.text for each in greedy]


# --- alternatives --------------------------------------------------------------------------------


def next_probabilities(translator: Translator, src: str, said: list[int]) -> Tensor:
    """Ask the model itself what comes next."""
    rows = [translator.tokenizers.src.encode(src)]
    src_ids, src_pad_mask = batch_sources(rows, pad_id=0, eos_id=2)
    with torch.inference_mode():
        logits = translator.model(src_ids, torch.tensor([[1, *said]]), src_pad_mask)
    return logits[0, -1].softmax(-1)


def end_probability(translator: Translator, src: str, prefix: str, n_generated: int) -> float:
    """Ask for each piece of the open word, and for the end behind it, one after the other."""
    tokenizer, probability = translator.tokenizers.tgt, 1.0
    ids = [*tokenizer.encode(prefix.rstrip()), tokenizer.eos_id]
    for n in range(n_generated, len(ids)):
        probability *= next_probabilities(translator, src, ids[:n])[ids[n]].item()
    return probability


@pytest.mark.parametrize("prefix", ["", "The cow ", "The cow", "The frog ru", "The c"])
def test_alternatives_have_the_probabilities_of_the_model_best_first(
    prefix: str, trained: Translator, sources: list[str]
) -> None:
    """Behind the whole words; the last word may be said in other pieces or go on."""
    tokenizer = trained.tokenizers.tgt
    words = tokenizer.pre_tokens(prefix)
    said = tokenizer.encode("".join(words[:-1]).removeprefix(" "))
    expected = next_probabilities(trained, sources[0], said)
    found = trained.alternatives(sources[0], prefix, k=6)
    probabilities = [each.probability for each in found]
    assert 1 <= len(found) <= 6
    assert probabilities == sorted(probabilities, reverse=True)
    ids = {tokenizer.piece_bytes(i): i for i in range(3, tokenizer.vocab_size)}
    owed = words[-1].encode() if words else b""
    fitting = [
        expected[i].item()
        for piece, i in ids.items()
        if piece.startswith(owed) or owed.startswith(piece)
    ]
    fitting.append(end_probability(trained, sources[0], prefix, len(said)))
    assert probabilities == pytest.approx(sorted(fitting, reverse=True)[:6], rel=1e-4)
    for each in found:
        if "<" not in each.piece:
            piece_id = ids[each.piece.encode()]
            assert each.probability == pytest.approx(expected[piece_id].item(), rel=1e-4)


@pytest.mark.parametrize("prefix", ["", "The ", "The cow ", "The cow sl", "The cow", "Wh"])
def test_each_alternative_leads_to_a_text_with_prefix_and_piece(
    prefix: str, trained: Translator, sources: list[str]
) -> None:
    for src in sources[:3]:
        found = trained.alternatives(src, prefix, k=5)
        words = trained.tokenizers.tgt.pre_tokens(prefix)
        before = "".join(words[:-1])
        for each in found:
            if each.piece == "<eos>":
                assert each.text == prefix.rstrip()
                continue
            assert each.text.startswith(prefix)
            if "<" not in each.piece:
                assert each.text.startswith((before + each.piece).removeprefix(" "))


def test_the_first_alternative_of_each_word_leads_to_the_translation(
    trained: Translator, sources: list[str]
) -> None:
    natural = trained.translate(sources[0], beam_size=1).text
    words = natural.split()
    for n in range(len(words)):
        prefix = "".join(f"{word} " for word in words[:n])
        best = trained.alternatives(sources[0], prefix, k=1)[0]
        assert best.text.startswith(prefix + words[n][:1])


def test_the_end_is_an_alternative_to_the_first_word(
    trained: Translator, sources: list[str]
) -> None:
    found = trained.alternatives(sources[0], k=trained.tokenizers.tgt.vocab_size)
    assert [each.text for each in found if each.piece == "<eos>"] == [""]


@pytest.mark.parametrize("prefix", ["The cow", "The cow ", "The cow sleeps here today."])
def test_the_end_is_an_alternative_behind_a_prefix(
    prefix: str, trained: Translator, sources: list[str]
) -> None:
    found = trained.alternatives(sources[0], prefix, k=trained.tokenizers.tgt.vocab_size)
    (end,) = [each for each in found if each.piece == "<eos>"]
    assert end.text == prefix.rstrip()
    scored = trained.score(sources[0], prefix.rstrip())
    words = trained.tokenizers.tgt.pre_tokens(prefix)[:-1]
    n_generated = len(trained.tokenizers.tgt.encode("".join(words).removeprefix(" ")))
    assert math.log(end.probability) == pytest.approx(
        sum(scored.tgt_log_probs[n_generated:]), rel=1e-3
    )


def test_alternatives_in_a_later_sentence_leave_the_others_alone(
    trained: Translator, sources: list[str]
) -> None:
    """What stands before is the prefix, what stands behind is translated as ever."""
    text = f"{sources[0]} {sources[1]}\n{sources[2]}"
    last = trained.translate(sources[2]).text
    alone = trained.alternatives(sources[1], "The c", k=3)
    found = trained.alternatives(text, "So it is. The c", k=3)
    assert [each.probability for each in found] == pytest.approx([a.probability for a in alone])
    assert [each.text for each in found] == [f"So it is. {a.text}\n{last}" for a in alone]


def test_as_many_alternatives_as_there_are(trained: Translator, sources: list[str]) -> None:
    with pytest.raises(ConfigError, match="k = 0 must be at least 1"):
        trained.alternatives(sources[0], k=0)
    assert len(trained.alternatives(sources[0], k=3)) == 3
    found = trained.alternatives(sources[0], "ഒ", k=50)  # three bytes: few pieces fit
    assert 1 <= len(found) < 50


@pytest.mark.parametrize("src", ["", " ", "\n"])
def test_alternatives_of_nothing_are_refused(src: str, trained: Translator) -> None:
    with pytest.raises(InputError, match="empty"):
        trained.alternatives(src)


def test_fewer_than_no_alternatives_are_refused(trained: Translator, sources: list[str]) -> None:
    with pytest.raises(HubNMTError, match="k"):
        trained.alternatives(sources[0], k=-1)


# --- streams -------------------------------------------------------------------------------------


@STRATEGIES
@pytest.mark.parametrize("prefix", ["", "The frog"])
def test_the_last_value_of_a_stream_is_the_translation(
    prefix: str, strategy: dict[str, Any], trained: Translator, sources: list[str]
) -> None:
    for text in (sources[0], f"  {sources[1]} \n\n{sources[2]}\n", "", "\n"):
        *_, last = trained.stream(text, prefix=prefix, **strategy)
        assert last == trained.translate(text, prefix=prefix, **strategy).text


def test_a_greedy_stream_grows_word_by_word(trained: Translator, sources: list[str]) -> None:
    text = f"{sources[0]}\n\n{sources[1]}"
    shown = list(trained.stream(text, beam_size=1))
    assert len(set(shown)) > 8
    for sooner, later in itertools.pairwise(shown):
        assert later.startswith(sooner)


def test_a_stream_says_nothing_that_the_model_has_not_said(
    trained: Translator, sources: list[str]
) -> None:
    """With a beam the best beginning may change, but it is one that was searched: no half words."""
    for shown in trained.stream(sources[3], beam_size=4):
        assert "\ufffd" not in shown
        assert shown == "" or shown[0] == "T"


@pytest.mark.parametrize("text", ["Grüße, 👩\u200d👧!", "നായ ഓടുന്നു", "狗跑了。", "e\u0301"])
def test_no_value_of_a_stream_ends_inside_a_character(
    text: str, spell: Any, trained: Translator, sources: list[str]
) -> None:
    """Said byte by byte, so most steps end inside one."""
    spell(text.encode())
    shown = list(trained.stream(sources[0], beam_size=1))
    assert shown[-1] == text
    assert set(shown) == {text[:n] for n in range(len(text) + 1)}
    assert all(later.startswith(sooner) for sooner, later in itertools.pairwise(shown))


@pytest.mark.parametrize(
    "raw",
    [
        b"a\xffb",
        b"a\xe0\xb4 b",
        b"\xf0\x9f\x90",
        b"a\xc3",
        b"one\ntwo",
        b"one\r\n\ntwo",
        b"a\xe2\x80\xa8b",
    ],
    ids=repr,
)
def test_a_greedy_stream_only_grows_whatever_is_said(
    raw: bytes, spell: Any, trained: Translator, sources: list[str]
) -> None:
    """Broken characters and line breaks are shown as they will be at the end, or not yet."""
    spell(raw)
    shown = list(trained.stream(sources[0], beam_size=1, guard=False))
    assert shown[-1] == trained.translate(sources[0], beam_size=1, guard=False).text
    for value in shown:
        assert shown[-1].startswith(value)


def test_an_abandoned_stream_stops_the_search(
    spell: Any, trained: Translator, sources: list[str]
) -> None:
    spelling = spell(b"x" * 80, seconds_per_step=0.02)
    stream = trained.stream(sources[0], beam_size=1, max_new_tokens=90, guard=False)
    next(stream)
    next(stream)
    stream.close()
    n_calls = spelling.n_calls
    assert n_calls < 40
    time.sleep(0.1)
    assert spelling.n_calls == n_calls


def test_an_error_of_the_search_reaches_who_reads_the_stream(
    trained: Translator, sources: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no memory left")

    monkeypatch.setattr(engine_module, "ModelStep", fail)
    with pytest.raises(RuntimeError, match="no memory left"):
        list(trained.stream(sources[0]))


@pytest.mark.parametrize("options", [{"beam_size": 0}, {"beam": 3}], ids=str)
def test_a_stream_refuses_what_translate_refuses(
    options: dict[str, Any], trained: Translator
) -> None:
    with pytest.raises(HubNMTError, match="beam"):
        list(trained.stream("Heute", **options))


# --- score ---------------------------------------------------------------------------------------


@STRATEGIES
def test_the_score_of_a_translation_is_the_searchs_own(
    strategy: dict[str, Any], trained: Translator, sources: list[str]
) -> None:
    """Where the search spelled the text as the tokenizer does, which is nearly always."""
    options = {"length_penalty": 0.8, "temperature": 0.4, "guard": False}
    found = trained.translate(sources, **options, **strategy)
    scored = trained.score(sources, [each.text for each in found])
    assert isinstance(scored, list)
    n_same = 0
    for translation, pair in zip(found, scored, strict=True):
        if pair.tgt_tokens != translation.tgt_tokens:
            continue
        n_same += 1
        n_tokens = len(pair.tgt_tokens)
        assert pair.tgt_log_probs == pytest.approx(translation.tgt_log_probs, rel=1e-3, abs=1e-4)
        assert translation.score == pytest.approx(pair.log_prob / n_tokens**0.8, rel=1e-3)
        assert pair.perplexity == pytest.approx(math.exp(-pair.log_prob / n_tokens), rel=1e-6)
    assert n_same >= len(sources) // 2


def test_a_translation_found_is_likelier_than_one_that_is_wrong(
    trained: Translator, sources: list[str]
) -> None:
    found = [each.text for each in trained.translate(sources, guard=False)]
    right, wrong = trained.score(sources, found), trained.score(sources, found[1:] + found[:1])
    assert isinstance(right, list)
    assert isinstance(wrong, list)
    likelier = [a.log_prob > b.log_prob for a, b in zip(right, wrong, strict=True)]
    assert sum(likelier) > 0.8 * len(sources)


def test_an_empty_target_costs_its_end(trained: Translator, sources: list[str]) -> None:
    pair = trained.score(sources[0], "")
    assert isinstance(pair, PairScore)
    expected = next_probabilities(trained, sources[0], [])[trained.tokenizers.tgt.eos_id].item()
    assert pair.tgt_tokens == ("<eos>",)
    assert pair.log_prob == pytest.approx(math.log(expected), rel=1e-4)


# --- guard ---------------------------------------------------------------------------------------


class Suspicion:
    """Finds texts suspicious as it was told, and remembers what it was shown."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.shown: list[str] = []

    def __call__(self, *, text: str, **_: Any) -> list[str]:
        self.shown.append(text)
        return self._answers.pop(0) if self._answers else []


@pytest.fixture
def searches(trained: Translator, monkeypatch: pytest.MonkeyPatch) -> list[DecodingConfig]:
    """Every search's options, as they come."""
    asked: list[DecodingConfig] = []
    search = trained.engine.search

    def remember(rows: Any, decoding: DecodingConfig, **options: Any) -> Any:
        if rows:
            asked.append(decoding)
        return search(rows, decoding, **options)

    monkeypatch.setattr(trained.engine, "search", remember)
    return asked


def suspect(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> Suspicion:
    suspicion = Suspicion(*answers)
    monkeypatch.setattr(retry_module, "find_degenerate", suspicion)
    return suspicion


def test_the_guard_is_silent_where_nothing_is_suspicious(
    trained: Translator, sources: list[str], searches: list[DecodingConfig]
) -> None:
    guarded = trained.translate(sources[:5])
    assert len(searches) == 1
    assert guarded == trained.translate(sources[:5], guard=False)


def test_a_better_second_try_is_taken_and_reported(
    trained: Translator,
    sources: list[str],
    searches: list[DecodingConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suspicion = suspect(monkeypatch, ["repeats itself", "copies the source"], ["repeats itself"])
    translation = trained.translate(sources[0])
    first, second = searches
    assert first != second
    assert translation.text == suspicion.shown[1]
    (warning,) = translation.warnings
    assert "repeats itself and copies the source" in warning
    assert "again" in warning


def test_a_second_try_no_better_is_dropped_and_there_is_no_third(
    trained: Translator,
    sources: list[str],
    searches: list[DecodingConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = trained.translate(sources[0], guard=False)
    searches.clear()
    suspicion = suspect(monkeypatch, *[["is odd"]] * 9)
    translation = trained.translate(sources[0])
    assert len(searches) == len(suspicion.shown) == 2
    assert (translation.text, translation.score) == (plain.text, plain.score)
    assert translation.warnings == ("the translation is odd",)


def test_without_the_guard_nothing_is_looked_at(
    trained: Translator,
    sources: list[str],
    searches: list[DecodingConfig],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suspicion = suspect(monkeypatch, *[["is odd"]] * 9)
    translation = trained.translate(f"{sources[0]}\n{sources[1]}", guard=False)
    list(trained.stream(sources[0], guard=False))
    assert suspicion.shown == []
    assert len(searches) == 2
    assert translation.warnings == ()


def test_only_the_suspicious_part_is_tried_again(
    trained: Translator, sources: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = [each.text for each in trained.translate(sources[:3], guard=False)]
    suspect(monkeypatch, [], ["is odd"], [], [])
    translation = trained.translate("\n".join(sources[:3]))
    lines = translation.text.split("\n")
    assert (lines[0], lines[2]) == (plain[0], plain[2])
    assert len(translation.warnings) == 1


@pytest.mark.parametrize(
    "options",
    [GREEDY, {"beam_size": 12}, {"n_best": 3}, SAMPLE, {"sample": True, "n_best": 20}],
    ids=str,
)
def test_a_second_try_is_possible_with_any_options(
    options: dict[str, Any],
    trained: Translator,
    sources: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suspect(monkeypatch, ["is odd"])
    translation = trained.translate(sources[0], **options)
    assert "again" in translation.warnings[0]
    assert 1 <= len(translation.n_best) <= options.get("n_best", 1)


def test_the_last_value_of_a_stream_is_guarded_too(
    trained: Translator, sources: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    suspicion = suspect(monkeypatch, ["is odd"], [])
    *_, last = trained.stream(sources[0])
    assert last == suspicion.shown[1]
