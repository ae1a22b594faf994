"""How good the weights are now: dev loss, BLEU and chrF on the validation set.

Takes a `Translator` and held-out pairs, gives numbers and translations. Must not know the
optimizer.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from hubnmt.config import DecodingConfig
from hubnmt.errors import InputError
from hubnmt.metrics import Scores, score_corpus
from hubnmt.translator import Translator
from training.batches import collate, measure_lengths, plan_epoch
from training.loss import projected_cross_entropy

_GREEDY = DecodingConfig(beam_size=1).to_dict()
"""Whatever the recipe's `[decoding]` says, but for the longest translation: how to choose among
translations is for the finished model, how long one must be able to grow is the language's."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """One look at the validation set."""

    dev_loss: float
    """Nats per non-pad target token, no label smoothing."""
    scores: Scores
    translations: tuple[str, ...]
    """Greedy, in the order of the set."""

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for the log."""
        return {
            "dev_loss": self.dev_loss,
            "bleu": self.scores.bleu,
            "bleu_signature": self.scores.bleu_signature,
            "chrf": self.scores.chrf,
            "chrf_signature": self.scores.chrf_signature,
        }


def evaluate(
    translator: Translator, pairs: Sequence[tuple[str, str]], *, batch_tokens: int
) -> Evaluation:
    """Translate the validation sources greedily and score them; measure the loss of the references.

    Of the model's own decoding defaults only `max_new_tokens` counts: nothing is sampled or begun
    with.

    Args:
        translator: the weights to judge.
        pairs: (source, reference) texts.
        batch_tokens: padded tokens per batch.
    """
    sources, references = [src for src, _ in pairs], [tgt for _, tgt in pairs]
    options = _GREEDY | {"max_new_tokens": translator.decoding.max_new_tokens}
    translations = translator.translate(sources, **options, batch_tokens=batch_tokens)
    texts = tuple(translation.text for translation in translations)
    return Evaluation(
        dev_loss=measure_loss(translator, pairs, batch_tokens=batch_tokens),
        scores=score_corpus(texts, references),
        translations=texts,
    )


@torch.inference_mode()
def measure_loss(
    translator: Translator, pairs: Sequence[tuple[str, str]], *, batch_tokens: int
) -> float:
    """Average the negative log-likelihood of the references, nats per non-pad token.

    Pairs many times longer than the model was trained on are left out: they are cut to translate,
    and one endless line would need all the memory there is.

    Raises:
        InputError: if no pair is short enough.
    """
    model = translator.model
    src_tokenizer, tgt_tokenizer = translator.src_tokenizer, translator.tgt_tokenizer
    ids = [(src_tokenizer.encode(src), tgt_tokenizer.encode(tgt)) for src, tgt in pairs]
    limit = 4 * max(model.config.max_src_tokens, 64)
    ids = [pair for pair in ids if max(map(len, pair)) < limit]
    if not ids:
        raise InputError(
            f"no validation pair is shorter than {limit} tokens; raise data.max_tokens"
        )
    total = torch.zeros((), device=translator.device)
    n_tokens = 0
    for rows in plan_epoch(measure_lengths(ids), batch_tokens=batch_tokens, seed=0):
        batch = collate(
            [ids[row] for row in rows], src_tokenizer=src_tokenizer, tgt_tokenizer=tgt_tokenizer
        ).to(translator.device)
        memory = model.encode(*batch.src)
        hidden = batch.pick(model.decode(batch.tgt_in, memory, batch.src.src_pad_mask))
        weight = model.output_proj.weight
        total += projected_cross_entropy(hidden, weight, batch.labels, label_smoothing=0.0).nll
        n_tokens += len(batch.labels)
    return float(total) / n_tokens
