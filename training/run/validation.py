"""A validation: which weights, how good they are, and the folders `best/` and `last/`.

Takes the moving parts of a run, gives an `Evaluation` and model folders. Must not know the
optimizer. Only the leader of a run does this.

Every `eval_every` steps it is a validation's turn; a sitting that ends between two is validated out
of turn. `best/` holds the best of all, whoever's turn it was, so that going on never costs a model
that was better; which validation that is, it says itself (see `kept`). Patience and snapshots know
those in turn only: what is learned, and when a run ends, is the same in however many sittings. A
run that starts from a model validates that first, at step 0, so that `best/` is never worse; its
weights are in no average.
"""

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from hubnmt.checkpoint.folder import StoredModel, repair_folder, save_model
from hubnmt.config import DecodingConfig
from hubnmt.decoding import run_search
from hubnmt.errors import InputError
from hubnmt.inference.engine import DEFAULT_BATCH_TOKENS
from hubnmt.model import Transformer
from hubnmt.pipeline.assemble import decode_line
from hubnmt.text.metrics import Scores, score_corpus
from hubnmt.text.tokenizer import single_spaced
from hubnmt.translator import Translator
from training.config.recipe import RunConfig
from training.data.batching import Pair, collate, measure_lengths, plan_epoch
from training.data.prepare import Corpus
from training.files import explain_failed_save
from training.optim.averaging import average, copy_weights, with_weights
from training.optim.loss import projected_cross_entropy
from training.run.best_record import read_note, write_note
from training.run.checkpoint import Parts, Progress
from training.run.logging import Best, RunReport
from training.run.throughput import peak_memory_mib


class HeldOutPairs(NamedTuple):
    """Pairs to measure on, with their tokens."""

    sources: list[str]
    references: list[str]
    ids: list[Pair]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """One look at the validation set."""

    dev_loss: float
    """Nats per non-pad target token, no label smoothing."""
    scores: Scores
    translations: tuple[str, ...]
    """Greedy, in the order of the pairs."""

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers, for the log."""
        return {
            "dev_loss": self.dev_loss,
            "bleu": self.scores.bleu,
            "bleu_signature": self.scores.bleu_signature,
            "chrf": self.scores.chrf,
            "chrf_signature": self.scores.chrf_signature,
        }


def encode_pairs(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> HeldOutPairs:
    """Tokenise pairs as training does, and leave out those that no memory would be enough for.

    These are many times longer than what the model was trained on; how many is said.

    Raises:
        InputError: if no pair is short enough.
    """
    limit = 4 * max(translator.config.max_src_tokens, 64)
    kept = HeldOutPairs([], [], [])
    encode = translator.src_tokenizer.encode, translator.tgt_tokenizer.encode
    for src, tgt in zip(sources, references, strict=True):
        ids = encode[0](single_spaced(src)), encode[1](single_spaced(tgt))
        if max(map(len, ids)) < limit:
            kept.sources.append(src)
            kept.references.append(tgt)
            kept.ids.append(ids)
    if not kept.ids:
        raise InputError(f"no pair to measure on is shorter than {limit} tokens")
    n_left = len(sources) - len(kept.ids)
    if n_left:
        log.warning(
            "%d of %d pairs to measure on have %d tokens or more and are left out",
            n_left,
            len(sources),
            limit,
        )
    return kept


def evaluate(translator: Translator, pairs: HeldOutPairs, *, batch_tokens: int) -> Evaluation:
    """Translate the sources greedily and score them; measure the loss of the references.

    Of the model's own decoding defaults only `max_new_tokens` counts: how to choose among
    translations is for the finished model, how long one must be able to grow is the language's.

    Args:
        translator: the weights to judge.
        pairs: to judge on.
        batch_tokens: padded tokens per batch.

    Raises:
        FloatingPointError: if the loss is no number any more.
    """
    dev_loss = measure_loss(translator, pairs, batch_tokens=batch_tokens)
    if not math.isfinite(dev_loss):
        raise FloatingPointError(f"validation loss {dev_loss}")
    greedy = DecodingConfig(beam_size=1, max_new_tokens=translator.decoding.max_new_tokens)
    texts = decode_pairs(translator, pairs, greedy, batch_tokens=batch_tokens)
    return Evaluation(
        dev_loss=dev_loss,
        scores=score_corpus(texts, pairs.references),
        translations=tuple(texts),
    )


def decode_pairs(
    translator: Translator,
    pairs: HeldOutPairs,
    decoding: DecodingConfig,
    *,
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
) -> list[str]:
    """Translate the sources as they are; one without a word stays empty."""
    tokenizer = translator.tgt_tokenizer
    rows = [src for src, _ in pairs.ids if src]
    search = translator.engine.search(rows, decoding, batch_tokens=batch_tokens)
    found = iter(run_search(search))
    return [decode_line(next(found)[0].ids, tokenizer) if src else "" for src, _ in pairs.ids]


@torch.inference_mode()
def measure_loss(translator: Translator, pairs: HeldOutPairs, *, batch_tokens: int) -> float:
    """Average the negative log-likelihood of the references, nats per non-pad token."""
    model = translator.model
    tokenizers = {
        "src_tokenizer": translator.src_tokenizer,
        "tgt_tokenizer": translator.tgt_tokenizer,
    }
    total = torch.zeros((), device=translator.device)
    n_tokens = 0
    for rows in plan_epoch(measure_lengths(pairs.ids), batch_tokens=batch_tokens, seed=0):
        batch = collate([pairs.ids[row] for row in rows], **tokenizers).to(translator.device)
        memory = model.encode(*batch.src)
        hidden = batch.pick(model.decode(batch.tgt_in, memory, batch.src.src_pad_mask))
        weight = model.output_proj.weight
        total += projected_cross_entropy(hidden, weight, batch.labels, label_smoothing=0.0).nll
        n_tokens += len(batch.labels)
    return float(total) / n_tokens


log = logging.getLogger("training")


class Judge:
    """Validates the same way each time."""

    def __init__(
        self,
        config: RunConfig,
        folder: Path,
        corpus: Corpus,
        report: RunReport,
        progress: Progress,
    ) -> None:
        """Remember what to judge on, where to put it, and what was judged before."""
        self._settings = config.run
        self._batch_tokens = config.optimizer.batch_tokens
        self._decoding = DecodingConfig.from_dict(config.decoding, where="[decoding]")
        self._folder = folder
        self._corpus = corpus
        self._pairs: HeldOutPairs | None = None
        self._report = report
        self._scores = report.scores()
        if progress.best_bleu >= 0:  # also known without the record
            self._scores.setdefault(progress.best_step, progress.best_bleu)
        repair_folder(folder / "best")
        self.best = self._read_best()
        """What `best/` holds: of equal scores the earliest."""

    def _read_best(self) -> Best | None:
        """Ask the folder itself; one of an older run has no note, and holds the best on record."""
        note = read_note(self._folder / "best")
        if note is not None:
            return Best(note["step"], note["bleu"])
        steps = sorted(self._scores)
        return max((Best(step, self._scores[step]) for step in steps), key=_bleu, default=None)

    def has_validated(self, step: int) -> bool:
        """Tell whether the weights of a step were validated, in this sitting or before."""
        return step in self._scores

    def validate(self, parts: Parts, progress: Progress) -> Evaluation:
        """Judge, save `last/`, and `best/` if it is; write both into progress and the report.

        Progress learns of it only in turn.

        Raises:
            ModelFolderError: if the disk is full; the folders saved before are whole.
        """
        model = parts.stepper.model
        stored = StoredModel(
            model=self._pick(parts, progress),
            src_tokenizer=self._corpus.src_tokenizer,
            tgt_tokenizer=self._corpus.tgt_tokenizer,
            decoding=self._decoding,
        )
        device = next(model.parameters()).device
        translator = Translator(stored, device=str(device))
        if self._pairs is None:  # the same at every validation
            sides = ([pair[side] for pair in self._corpus.valid] for side in (0, 1))
            self._pairs = encode_pairs(translator, *sides)
        evaluation = evaluate(translator, self._pairs, batch_tokens=self._batch_tokens)
        bleu = evaluation.scores.bleu
        is_best = self.best is None or bleu > self.best.bleu
        record = {"step": progress.step, **evaluation.to_dict(), "minutes": progress.seconds / 60}
        if is_best:
            self._save("best", stored, record)
            self.best = Best(progress.step, bleu)
        self._save("last", stored, record)
        self._scores[progress.step] = bleu
        if progress.step % self._settings.eval_every == 0:
            is_better = bleu > progress.best_bleu
            progress.n_worse = 0 if is_better else progress.n_worse + 1
            if is_better:
                progress.best_bleu, progress.best_step = bleu, progress.step
        peak_mib = peak_memory_mib(device)
        self._tell(
            evaluation, self._pairs, translator, progress, peak_mib=peak_mib, is_best=is_best
        )
        return evaluation

    def _pick(self, parts: Parts, progress: Progress) -> Transformer:
        """Return the weights that the recipe wants judged, in a model of their own."""
        model, settings = parts.stepper.model, self._settings
        if settings.judged == "raw" or progress.step == 0:  # nothing of the run's own to average
            return with_weights(model, copy_weights(model))
        if parts.moving_average is not None:
            return with_weights(model, parts.moving_average.weights)
        progress.snapshots[progress.step] = copy_weights(model)
        for step in list(progress.snapshots)[: -settings.average_last]:
            del progress.snapshots[step]
        return with_weights(model, average(progress.snapshots.values()))

    def _save(self, name: str, stored: StoredModel, record: Mapping[str, Any]) -> None:
        try:
            save_model(self._folder / name, stored, notes=write_note(record))
        except Exception as error:  # safetensors and the system tell a full disk differently
            if not isinstance(error, OSError) and "os error" not in str(error):
                raise
            raise explain_failed_save(self._folder / name, error) from error

    def _tell(
        self,
        evaluation: Evaluation,
        pairs: HeldOutPairs,
        translator: Translator,
        progress: Progress,
        *,
        peak_mib: float,
        is_best: bool,
    ) -> None:
        step, n_pairs, n_samples = progress.step, len(pairs.ids), self._settings.n_samples
        values = {"minutes": progress.seconds / 60, "peak_mib": peak_mib}
        self._report.add(step, "valid", evaluation.to_dict() | values)
        chosen = range(0, n_pairs, max(1, n_pairs // max(1, n_samples)))[:n_samples]
        columns = (pairs.sources, pairs.references, evaluation.translations)
        rows = [(src, tgt, text) for src, tgt, text in zip(*columns, strict=True)]
        rows = [rows[i] for i in chosen]
        self._report.add_samples(step, rows)
        if rows and all(rows[0]):
            self._report.add_attention(step, translator.attend(rows[0][0], rows[0][1]))
        log.info(
            "step %d  validation: loss %.4f  BLEU %.2f  chrF %.2f%s  (%s)",
            step,
            evaluation.dev_loss,
            evaluation.scores.bleu,
            evaluation.scores.chrf,
            "  the model to start from" if step == 0 else "  best so far" if is_best else "",
            evaluation.scores.bleu_signature,
        )


def _bleu(best: Best) -> float:
    return best.bleu
