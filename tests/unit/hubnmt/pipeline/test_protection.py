"""Protected spans in translations, with models whose weights copy the source."""

import json
from collections.abc import Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.model.transformer import Transformer
from hubnmt.text.characters import normalize
from hubnmt.text.protected_spans import PLACEHOLDERS, find_spans
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.translator import Translator

URL = "https://example.org/a?b=1"
TEXTS = [
    f"Ein Hund rennt zu {URL}, um 12:30.",
    "Frag @anna.b oder anna@example.org (LH456) am 3.4.2026!",
    "Zwei 👩\u200d👧 kochen 🎉 mit `x  = 'e\u0301. Und'` im Schnee.",
    "Er zahlt 3.500,50 € und noch einmal 3.500,50 €.  Zwei Männer um 9:30?\nSeit 1990",
    "ab " + " ".join(str(number) for number in range(101, 112)),
    f"Hund {PLACEHOLDERS[3]} und {PLACEHOLDERS[3]} um 12:30",
]
D = 96


@pytest.fixture(scope="session")
def tokenizer(tiny_tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """The tiny vocabulary with a piece for each placeholder, whose merges come first."""
    settings = json.loads(tiny_tokenizer.to_json())
    vocab = settings["model"]["vocab"]
    names = {token_id: name for name, token_id in vocab.items()}
    byte_names = [names[token_id] for token_id in tiny_tokenizer.byte_ids()]
    merges: dict[tuple[str, str], None] = {}
    for placeholder in PLACEHOLDERS:
        whole, *rest = [byte_names[byte] for byte in placeholder.encode()]
        for name in rest:
            merges[whole, name] = None
            whole += name
        merges[byte_names[ord(" ")], whole] = None
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    settings["model"]["merges"] = [*map(list, merges), *settings["model"]["merges"]]
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return Tokenizer.load(path)


@torch.no_grad()
def make_copier(
    tokenizer: Tokenizer,
    said: Sequence[tuple[str, str]] = (),
    *,
    weight: float = 2,
    src_lang: str = "de",
) -> Translator:
    """Build a model that says token t of the source in step t.

    The first half of the features has the position, which the cross-attention compares, and the
    second half the token, which it passes on.

    Args:
        tokenizer: joint vocabulary.
        said: pairs of texts: the model says the last piece of the second for that of the first.
        weight: logit of what it says, relative to that of the copy.
        src_lang: language of the source.
    """
    size = tokenizer.vocab_size
    config = ModelConfig(
        src_lang=src_lang,
        tgt_lang="fr",
        src_vocab_size=size,
        tgt_vocab_size=size,
        d_model=D,
        n_heads=1,
        d_ff=4,
        n_encoder_layers=1,
        n_decoder_layers=1,
        max_src_tokens=60,
        share_embeddings=False,
        tie_output=False,
    )
    model = Transformer(config).eval()
    for name, parameter in model.named_parameters():
        parameter.fill_(1 if "norm.weight" in name else 0)
    generator = torch.Generator().manual_seed(1)
    half = torch.randint(0, 2, (size, D // 4 - 1), generator=generator) * 2.0 - 1
    tokens = torch.cat((half, -half), dim=1)  # mean 0
    place, token, zero = slice(0, D // 2), slice(D // 2, D - 2), D - 2
    model.src_embedding.weight[:, token] = tokens
    attention = model.decoder.layers[0].cross_attention
    query, key, value = attention.qkv_proj.weight.chunk(3)
    for matrix in (query, key):
        matrix[place, place] = 60 * torch.eye(D // 2)
        matrix[place, zero] = -60  # what layer norm subtracted
    value[token, token] = 5 * torch.eye(D // 2 - 2)
    attention.out_proj.weight.copy_(torch.eye(D))
    model.output_proj.weight[:, token] = tokens
    for mark, text in said:
        mark_id, text_id = tokenizer.encode(mark)[-1], tokenizer.encode(text)[-1]
        model.output_proj.weight[text_id, token] = weight * tokens[mark_id]
    stored = StoredModel(
        model=model,
        tokenizers=Tokenizers(tokenizer, tokenizer),
        decoding=DecodingConfig(beam_size=2),
    )
    return Translator(stored)


@pytest.fixture(scope="module")
def copier(tokenizer: Tokenizer) -> Translator:
    return make_copier(tokenizer)


@pytest.fixture(scope="module")
def careless(tokenizer: Tokenizer) -> Translator:
    """Loses the first placeholder, and says another one than the second."""
    return make_copier(tokenizer, [(PLACEHOLDERS[0], "~"), (PLACEHOLDERS[1], PLACEHOLDERS[5])])


def private(text: str) -> set[str]:
    return {*text} & {*PLACEHOLDERS}


@pytest.mark.parametrize("text", TEXTS)
def test_spans_stand_in_the_translation_as_they_are(text: str, copier: Translator) -> None:
    found = copier.translate(text, beam_size=3, guard=False)
    assert found.text == text
    assert found.src_tokens == found.tgt_tokens
    for pair in found.sentences:
        assert found.src[slice(*pair.src)] == found.text[slice(*pair.tgt)]


@pytest.mark.parametrize(("text", "n_best"), [(TEXTS[0], 1), (TEXTS[1], 2), (TEXTS[3], 2)])
def test_spans_that_the_model_would_lose_are_required(
    text: str, n_best: int, careless: Translator
) -> None:
    found = careless.translate(text, n_best=n_best, guard=False)
    for candidate in found.n_best:
        for span in find_spans(normalize(text)):
            assert candidate.text.count(span) == normalize(text).count(span)
        assert not private(candidate.text)
    maps = careless.attend(text, found.n_best[0])
    assert "".join(maps.tgt_tokens) == "".join(found.tgt_tokens)
    assert maps.tgt_log_probs == pytest.approx(found.tgt_log_probs, abs=1e-3)


@pytest.mark.parametrize("beam_size", [1, 2])
def test_spans_do_not_make_a_translation_longer_than_its_limit(
    beam_size: int, careless: Translator
) -> None:
    found = careless.translate(TEXTS[0], beam_size=beam_size, max_new_tokens=4, guard=False)
    assert len(found.tgt_tokens) <= 5
    assert {URL, "12:30"} <= {token.strip() for token in found.tgt_tokens}
    short = careless.translate(TEXTS[0], beam_size=beam_size, max_new_tokens=1, guard=False)
    assert len(short.tgt_tokens) == 2


def test_a_sentence_of_spans_is_copied_without_the_model(careless: Translator) -> None:
    text = f"12:30 – 14:15!  3.500,50 €\n{URL}\n"
    found = careless.translate(text)
    assert found.text == text
    assert found.src_tokens == ()


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    text=st.lists(
        st.sampled_from(["Hund ", "1234", " @anna ", "12:30", ". ", "\n", "`", *PLACEHOLDERS[:3]])
        | st.text(max_size=5),
        max_size=6,
    ).map("".join)
)
def test_no_placeholder_is_shown_that_is_not_in_the_text(
    text: str, copier: Translator, careless: Translator
) -> None:
    options = {"max_new_tokens": 9, "beam_size": 1}
    for model in (copier, careless):
        shown = list(model.stream(text, n_together=2, **options))
        assert all(private(each) <= private(text) for each in shown)


def test_attention_shows_a_span_as_one_word(copier: Translator) -> None:
    words = copier.attend(TEXTS[0], TEXTS[0]).by_word()
    assert words.src_tokens == words.tgt_tokens
    assert words.src.text == TEXTS[0]
    for token in (" " + URL, " 12:30"):
        index = words.src_tokens.index(token)
        assert words.src.text[slice(*words.src.chars[index])] == token
        start, end = words.src.utf8[index]
        assert words.src.text.encode()[start:end] == token.encode()
    assert words.cross[0, 0].argmax(-1).tolist() == [*range(len(words.src_tokens))]
    links = copier.attend(TEXTS[0], TEXTS[0]).word_alignment((0, 0))
    assert all(link.src == link.tgt for link in links)


def test_a_given_translation_has_the_same_placeholders(copier: Translator) -> None:
    src, tgt = "Zwei um 12:30 und 9:30", "9:30 und um 12:30 Zwei"
    assert " 12:30" in copier.score(src, tgt).tgt_tokens
    assert copier.score(src, src).log_prob > -0.1
    without = copier.score(src, "Zwei um 12.30")
    assert " 12.30" not in without.tgt_tokens
    found = copier.translate(src)
    scored = copier.score(src, found.n_best[0])
    assert scored.tgt_log_probs == pytest.approx(found.tgt_log_probs, abs=1e-3)


@pytest.mark.parametrize("prefix", ["Zwei um 12:30 u", "Zwei um 12"])
def test_a_prefix_may_contain_spans(prefix: str, copier: Translator) -> None:
    src = "Zwei um 12:30 und 9:30"
    assert copier.translate(src, prefix=prefix, guard=False).text == src
    assert list(copier.stream(src, prefix=prefix, guard=False))[-1] == src


def test_the_other_engine_keeps_spans(copier: Translator, careless: Translator) -> None:
    pytest.importorskip("ctranslate2")
    for model in (copier, careless):
        other = Translator(model._stored, engine="ctranslate2")
        for text in TEXTS[:3]:
            assert (
                other.translate(text, guard=False).text == model.translate(text, guard=False).text
            )


@pytest.mark.parametrize(
    ("weight", "text"), [(1.00001, "Ein Hund und Katter rennt"), (2, "Ein Hund und Kazzer rennt")]
)
def test_a_name_that_lost_a_piece_is_restored_if_the_model_agrees(
    weight: float, text: str, tokenizer: Tokenizer
) -> None:
    translator = make_copier(tokenizer, [("t", "z")], weight=weight, src_lang="en")
    found = translator.translate("Ein Hund und Katter rennt")
    assert found.text.split()[3] == text.split()[3]
    raw = translator.translate("Ein Hund und Katter rennt", guard=False)
    assert "z" in raw.text.split()[3]


@pytest.mark.parametrize("src_lang", ["en", "de"])
def test_a_lost_name_is_restored_by_a_placeholder(tokenizer: Tokenizer, src_lang: str) -> None:
    model = make_copier(tokenizer, [("Xqyvy", "~")], weight=1.001, src_lang=src_lang)
    text = f"am 3.4.2026 Qvyqu Xqyvy {URL}"
    found = model.translate(text)
    is_restored = src_lang == "en"  # in German, every noun has a capital
    assert (found.text == text) == is_restored
    assert ("~" in found.text) != is_restored
    assert model.translate(text, guard=False).text != text
    assert "~" in model.translate("Xqyvy lacht!").text  # a first word has a capital in any case
    maps = model.attend(text, found.n_best[0])
    assert maps.tgt_log_probs == pytest.approx(found.tgt_log_probs, abs=1e-3)


def test_a_second_search_that_is_no_better_is_not_reported_as_taken(copier: Translator) -> None:
    text = "Ein Hund rennt im Schnee.  Ein Hund rennt im Schnee!\n"
    found = copier.translate(text)
    assert found.text == text
    assert found.warnings == ("the translation copies the source (2 parts)",)
    assert found.n_fallbacks == 0


def test_alternatives_do_not_end_before_a_span_of_the_source(tokenizer: Tokenizer) -> None:
    found = make_copier(tokenizer).alternatives(f"Ein {URL} rennt.", k=40)
    assert found
    assert "<eos>" not in [each.piece for each in found]
    assert all(URL in each.text for each in found)
