"""Evaluation: the dev loss is the references' own price, the scores are sacreBLEU's."""

from collections.abc import Callable
from typing import Any

import pytest
import sacrebleu
import torch

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig
from hubnmt.errors import InputError
from hubnmt.model.transformer import Transformer
from hubnmt.pipeline.fallback import longest_loop
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from hubnmt.translator import Translator
from training.run.validation import Evaluation, HeldOutPairs, encode_pairs, evaluate, measure_loss

PAIRS = [
    ("Ein Hund rennt.", "A dog is running in the snow."),
    ("Zwei Männer stehen am Herd.", "Two men."),
    ("Eine Frau in Blau fährt mit dem Fahrrad.", "A woman in blue rides a bicycle."),
    ("Ein Hund rennt. Eine Frau fährt.", "A dog is running. A woman rides."),
    ("EIN KLEINES MÄDCHEN KLETTERT!", "A LITTLE GIRL CLIMBS!"),
    ("Ein Hund 🐕", "A dog 🐕"),
]
"""The last three are what a page would split, put in small letters, or take apart."""
MakeTranslator = Callable[..., Translator]


@pytest.fixture
def make_translator(tiny_model: Transformer, tiny_tokenizer: Tokenizer) -> MakeTranslator:
    def make(**decoding: Any) -> Translator:
        defaults = DecodingConfig(**({"max_new_tokens": 9} | decoding))
        return Translator(
            StoredModel(
                model=tiny_model,
                tokenizers=Tokenizers(tiny_tokenizer, tiny_tokenizer),
                decoding=defaults,
            )
        )

    return make


def held_out(translator: Translator, pairs: list[tuple[str, str]]) -> HeldOutPairs:
    return encode_pairs(translator, *([pair[side] for pair in pairs] for side in (0, 1)))


def judge(translator: Translator, pairs: list[tuple[str, str]]) -> Evaluation:
    return evaluate(translator, held_out(translator, pairs), batch_tokens=1000)


@torch.no_grad()
def greedy_by_loop(translator: Translator, src: str) -> str:
    """The most probable token, one after the other, and nothing else."""
    tokenizer = translator.tokenizers.src
    ids = tokenizer.encode(src)
    src_ids = torch.tensor([[*ids, tokenizer.eos_id]])
    tgt_in = torch.tensor([[tokenizer.bos_id]])
    for _ in range(translator.decoding.max_tgt_tokens(len(ids))):
        logits = translator.model(src_ids, tgt_in, torch.zeros_like(src_ids, dtype=torch.bool))
        logits[0, -1, [tokenizer.pad_id, tokenizer.bos_id]] = -torch.inf
        best = logits[0, -1].argmax()
        if best == tokenizer.eos_id:
            break
        tgt_in = torch.cat([tgt_in, best.view(1, 1)], dim=1)
    return " ".join(tokenizer.decode(tgt_in[0, 1:].tolist()).splitlines())


def loss_by_loop(translator: Translator, pairs: list[tuple[str, str]]) -> float:
    """One sentence and one token at a time, eos included."""
    tokenizer, total, n_tokens = translator.tokenizers.src, 0.0, 0
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
        judge(make_translator(**options), PAIRS)
        for options in ({"max_new_tokens": None}, {"max_new_tokens": None} | decoding)
    )
    assert one.translations == other.translations
    assert any(one.translations)


def test_dev_loss_is_the_mean_price_of_a_token(make_translator: MakeTranslator) -> None:
    translator = make_translator()
    mine = measure_loss(translator, held_out(translator, PAIRS), batch_tokens=1000)
    assert mine == pytest.approx(loss_by_loop(translator, PAIRS), rel=1e-5)


@pytest.mark.parametrize("batch_tokens", [1, 60, 10_000])
def test_dev_loss_does_not_depend_on_the_batches(
    batch_tokens: int, make_translator: MakeTranslator
) -> None:
    translator = make_translator()
    expected = measure_loss(translator, held_out(translator, PAIRS[::-1]), batch_tokens=1000)
    found = measure_loss(translator, held_out(translator, PAIRS), batch_tokens=batch_tokens)
    assert found == pytest.approx(expected, rel=1e-5)


def test_scores_are_those_of_sacrebleu_with_signature(make_translator: MakeTranslator) -> None:
    evaluation = judge(make_translator(), PAIRS)
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
    greedy = [greedy_by_loop(translator, src) for src, _ in PAIRS]
    assert list(judge(translator, PAIRS).translations) == greedy
    assert limit == 1 or any(
        longest_loop(translator.tokenizers.tgt.encode(each)) for each in greedy
    )


def test_translations_keep_the_order_of_the_set(make_translator: MakeTranslator) -> None:
    forwards = judge(make_translator(), PAIRS)
    backwards = judge(make_translator(), PAIRS[::-1])
    assert forwards.translations == backwards.translations[::-1]


def test_an_empty_side_is_no_stumbling_block(make_translator: MakeTranslator) -> None:
    evaluation = judge(make_translator(), [*PAIRS, ("", "x"), ("y", "")])
    assert evaluation.translations[len(PAIRS)] == ""
    assert evaluation.dev_loss > 0


def test_loss_and_scores_are_of_the_same_pairs(
    make_translator: MakeTranslator, caplog: pytest.LogCaptureFixture
) -> None:
    """One that would take all the memory there is counts for neither, and that is said."""
    translator, endless = make_translator(), "lang " * 20_000
    found = judge(translator, [PAIRS[0], (endless, "long"), ("kurz", endless), *PAIRS[1:]])
    expected = judge(translator, PAIRS)
    assert found.translations == expected.translations
    assert found.dev_loss == pytest.approx(expected.dev_loss)
    assert found.scores == expected.scores
    assert "skipped 2 of 8 evaluation pairs with 256 tokens or more" in caplog.text


def test_pairs_that_are_all_too_long_are_refused(make_translator: MakeTranslator) -> None:
    with pytest.raises(InputError, match="no evaluation pair is shorter than 256 tokens"):
        judge(make_translator(), [("lang " * 20_000, "long")])


def test_nothing_is_learned(make_translator: MakeTranslator) -> None:
    translator = make_translator()
    before = [parameter.detach().clone() for parameter in translator.model.parameters()]
    judge(translator, PAIRS)
    after = list(translator.model.parameters())
    assert all(map(torch.equal, before, after))
    assert all(parameter.grad is None for parameter in after)
