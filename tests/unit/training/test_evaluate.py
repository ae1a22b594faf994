"""Evaluation: the dev loss is the references' own price, the scores are sacreBLEU's."""

from collections.abc import Callable
from typing import Any

import pytest
import sacrebleu
import torch

from hubnmt.checkpoint import StoredModel
from hubnmt.config import DecodingConfig
from hubnmt.model.transformer import Transformer
from hubnmt.tokenizer import Tokenizer
from hubnmt.translator import Translator
from training.evaluate import evaluate, measure_loss

PAIRS = [
    ("Ein Hund rennt.", "A dog is running in the snow."),
    ("Zwei Männer stehen am Herd.", "Two men."),
    ("Eine Frau in Blau fährt mit dem Fahrrad.", "A woman in blue rides a bicycle."),
]
MakeTranslator = Callable[..., Translator]


@pytest.fixture
def make_translator(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> MakeTranslator:
    def make(**decoding: Any) -> Translator:
        defaults = DecodingConfig(**({"max_new_tokens": 9} | decoding))
        return Translator(
            StoredModel(
                model=tiny_model,
                src_tokenizer=tiny_tokenizer,
                tgt_tokenizer=tiny_tokenizer,
                decoding=defaults,
            )
        )

    return make


def loss_by_loop(translator: Translator, pairs: list[tuple[str, str]]) -> float:
    """One sentence and one token at a time, eos included."""
    tokenizer, total, n_tokens = translator.src_tokenizer, 0.0, 0
    for src, tgt in pairs:
        src_ids = torch.tensor([[*tokenizer.encode(src), tokenizer.eos_id]])
        labels = [*tokenizer.encode(tgt), tokenizer.eos_id]
        tgt_in = torch.tensor([[tokenizer.bos_id, *labels[:-1]]])
        with torch.no_grad():
            logits = translator.model(src_ids, tgt_in, torch.zeros_like(src_ids, dtype=torch.bool))
        log_probs = logits[0].log_softmax(-1)
        total -= sum(float(log_probs[at, label]) for at, label in enumerate(labels))
        n_tokens += len(labels)
    return total / n_tokens


@pytest.mark.parametrize(
    "decoding",
    [{"sample": True, "temperature": 5.0}, {"no_repeat_ngram_size": 1}],
    ids=str,
)
def test_a_validation_is_greedy_whatever_the_defaults(
    decoding: dict[str, Any], make_translator: MakeTranslator
) -> None:
    one, other = (
        evaluate(make_translator(**options), PAIRS, batch_tokens=1000)
        for options in ({"max_new_tokens": None}, {"max_new_tokens": None} | decoding)
    )
    assert one.translations == other.translations
    assert any(one.translations)


def test_dev_loss_is_the_mean_price_of_a_token(make_translator: MakeTranslator) -> None:
    translator = make_translator()
    mine = measure_loss(translator, PAIRS, batch_tokens=1000)
    assert mine == pytest.approx(loss_by_loop(translator, PAIRS), rel=1e-5)


@pytest.mark.parametrize("batch_tokens", [1, 60, 10_000])
def test_dev_loss_does_not_depend_on_the_batches(
    batch_tokens: int, make_translator: MakeTranslator
) -> None:
    translator = make_translator()
    expected = measure_loss(translator, PAIRS[::-1], batch_tokens=1000)
    found = measure_loss(translator, PAIRS, batch_tokens=batch_tokens)
    assert found == pytest.approx(expected, rel=1e-5)


def test_scores_are_those_of_sacrebleu_with_signature(make_translator: MakeTranslator) -> None:
    evaluation = evaluate(make_translator(), PAIRS, batch_tokens=1000)
    hypotheses, references = list(evaluation.translations), [[tgt for _, tgt in PAIRS]]
    bleu = sacrebleu.corpus_bleu(hypotheses, references)
    chrf = sacrebleu.corpus_chrf(hypotheses, references)
    values = evaluation.to_dict()
    assert (values["bleu"], values["chrf"]) == (bleu.score, chrf.score)
    assert "tok:13a" in values["bleu_signature"]
    assert "nc:6" in values["chrf_signature"]
    assert set(values) == {"dev_loss", "bleu", "bleu_signature", "chrf", "chrf_signature"}


@pytest.mark.parametrize("limit", [None, 1, 200])
def test_translations_are_greedy_and_may_grow_as_long_as_the_folder_says(
    limit: int | None, make_translator: MakeTranslator
) -> None:
    translator = make_translator(beam_size=4, n_best=3, max_new_tokens=limit)
    greedy = [translator.translate(src, beam_size=1, n_best=1).text for src, _ in PAIRS]
    assert list(evaluate(translator, PAIRS, batch_tokens=1000).translations) == greedy


def test_translations_keep_the_order_of_the_set(make_translator: MakeTranslator) -> None:
    forwards = evaluate(make_translator(), PAIRS, batch_tokens=1000)
    backwards = evaluate(make_translator(), PAIRS[::-1], batch_tokens=1000)
    assert forwards.translations == backwards.translations[::-1]


def test_an_empty_side_is_no_stumbling_block(make_translator: MakeTranslator) -> None:
    evaluation = evaluate(make_translator(), [*PAIRS, ("", "x"), ("y", "")], batch_tokens=1000)
    assert evaluation.translations[3] == ""
    assert evaluation.dev_loss > 0


def test_nothing_is_learned(make_translator: MakeTranslator) -> None:
    translator = make_translator()
    before = [parameter.detach().clone() for parameter in translator.model.parameters()]
    evaluate(translator, PAIRS, batch_tokens=1000)
    after = list(translator.model.parameters())
    assert all(map(torch.equal, before, after))
    assert all(parameter.grad is None for parameter in after)
