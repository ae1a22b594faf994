"""Validation: loss, BLEU and chrF on the validation set, and the model folders `best/` and `last/`.

Validations are scheduled every `eval_every` steps; a session that ends in between validates its
last step, too. `best/` holds the best of all. Early stopping and averaging use scheduled ones only,
so the result does not depend on how often a run was resumed. A run that starts from a pretrained
model validates it at step 0; those weights never enter an average.
"""

import contextlib
import dataclasses
import json
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from hubnmt.checkpoint.card import write_card
from hubnmt.checkpoint.files import read_json, repair_folder
from hubnmt.checkpoint.folder import StoredModel, save_model
from hubnmt.config import DEFAULT_BATCH_TOKENS, DecodingConfig
from hubnmt.decoding.search import run_to_end
from hubnmt.errors import InputError, ModelFolderError
from hubnmt.model.transformer import Transformer
from hubnmt.text.characters import single_spaced
from hubnmt.text.metrics import Scores, score_corpus
from hubnmt.translator import Translator
from training.command import progress_bar
from training.config.recipe import Recipe
from training.data.batching import Pair, collate, measure_lengths, plan_epoch
from training.data.prepare import RunData
from training.data.sources import TextPair
from training.files import reporting_write_errors
from training.optim.loss import projected_cross_entropy
from training.run.checkpoint import Progress, average, copy_weights, with_weights
from training.run.report import RunReport, facts_of_run, peak_memory_mib
from training.run.run_dir import KeptModel

log = logging.getLogger("training")

VALIDATION_FILE = "validation.json"
USEFUL_BLEU = 5.0
"""BLEU from which on it, and not chrF, compares models."""
CHUNK = 256
"""Sentences translated between two updates of a progress bar."""


class HeldOutPairs(NamedTuple):
    """Sentence pairs of an evaluation set, with their token ids."""

    sources: list[str]
    references: list[str]
    ids: list[Pair]


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """Result of one validation."""

    dev_loss: float
    """Nats per non-pad target token, without label smoothing."""
    scores: Scores
    translations: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics, for the log."""
        names = ("bleu", "bleu_signature", "chrf", "chrf_signature")
        return {"dev_loss": self.dev_loss, **{name: getattr(self.scores, name) for name in names}}


class Validator:
    """Evaluates the model on the validation set and saves `best/` and `last/`."""

    def __init__(self, recipe: Recipe, folder: Path, run_data: RunData, report: RunReport) -> None:
        """Load the record of `best/`."""
        self._run_config = recipe.run
        self._batch_tokens = recipe.optimizer.batch_tokens
        self._decoding = DecodingConfig.from_dict(recipe.decoding, where="[decoding]")
        self._folder = folder
        self._run_data = run_data
        self._pairs: HeldOutPairs | None = None
        self._report = report
        repair_folder(folder / "best")
        self._best: Mapping[str, Any] | None = read_validation(folder / "best")

    def validate(self, model: Transformer, progress: Progress) -> None:
        """Evaluate, save `last/` and, if improved, `best/`; update the report and the progress."""
        # 1. Evaluate the model, or the mean of its last snapshots.
        stored = StoredModel(
            model=self._snapshot_and_average(model, progress),
            tokenizers=self._run_data.tokenizers,
            decoding=self._decoding,
        )
        device = next(model.parameters()).device
        translator = Translator(stored, device=str(device))
        if self._pairs is None:  # the same at every validation
            self._pairs = encode_pairs(translator, self._run_data.valid)
        evaluation = evaluate(translator, self._pairs, batch_tokens=self._batch_tokens)
        # 2. Save it.
        record = {"step": progress.step, **evaluation.to_dict(), "minutes": progress.seconds / 60}
        is_best = self._best is None or quality(record) > quality(self._best)
        if is_best:
            self._save("best", stored, record)
            self._best = record
        self._save("last", stored, record)
        # 3. Count for early stopping, at scheduled validations only.
        if progress.step % self._run_config.eval_every == 0:
            before = {"bleu": progress.best_bleu, "chrf": progress.best_chrf}
            progress.n_worse += 1
            if quality(record) > quality(before):
                progress.best_bleu, progress.best_chrf = record["bleu"], record["chrf"]
                progress.best_step, progress.n_worse = progress.step, 0
        # 4. Report.
        costs = {"minutes": record["minutes"], "peak_mib": peak_memory_mib(device)}
        self._report.add(progress.step, "valid", evaluation.to_dict() | costs)
        columns = (self._pairs.sources, self._pairs.references, evaluation.translations)
        self._report.add_samples(progress.step, self._pick_samples(*columns))
        first = self._pairs.sources[0], self._pairs.references[0]
        if first[0].strip():
            self._report.add_attention(progress.step, translator.attend(*first, split=False))
        log.info(
            "step %d  validation: loss %.4f  BLEU %.2f  chrF %.2f%s  (%s)",
            progress.step,
            evaluation.dev_loss,
            evaluation.scores.bleu,
            evaluation.scores.chrf,
            "" if not is_best else "  best so far" if progress.step else "  pretrained model",
            evaluation.scores.bleu_signature,
        )

    def _snapshot_and_average(self, model: Transformer, progress: Progress) -> Transformer:
        """Take a snapshot; return a copy of the model with the mean of the last ones' weights."""
        n_snapshots = self._run_config.average_last
        if n_snapshots == 1 or progress.step == 0:  # no step of this run to average
            return with_weights(model, copy_weights(model))
        progress.snapshots[progress.step] = copy_weights(model)
        for step in list(progress.snapshots)[:-n_snapshots]:
            del progress.snapshots[step]
        return with_weights(model, average(progress.snapshots.values()))

    def _save(self, name: KeptModel, stored: StoredModel, record: Mapping[str, Any]) -> None:
        facts = facts_of_run(
            self._folder, record, name=self._folder.name, config=stored.model.config, weights=name
        )
        stored = dataclasses.replace(stored, card=write_card(facts))
        notes = {VALIDATION_FILE: json.dumps(dict(record), indent=2) + "\n"}
        with reporting_write_errors(self._folder / name):
            save_model(self._folder / name, stored, notes=notes)

    def _pick_samples(self, *columns: Sequence[str]) -> list[tuple[str, ...]]:
        """Return evenly spaced rows of the columns."""
        rows, n_samples = list(zip(*columns, strict=True)), self._run_config.n_samples
        return rows[:: max(1, len(rows) // max(1, n_samples))][:n_samples]


def read_validation(folder: Path) -> dict[str, Any] | None:
    """Return the record of the validation that belongs to the weights in `best/` or `last/`.

    It is stored with the weights, atomically; the state of the run is not, so after a power cut a
    resumed run would lack the validation.
    """
    try:
        return read_json(folder / VALIDATION_FILE)
    except ModelFolderError:
        return None


def encode_pairs(translator: Translator, pairs: Sequence[TextPair]) -> HeldOutPairs:
    """Tokenise pairs as in training, and skip those of excessive length.

    Pairs many times longer than the training data would exhaust memory; their number is logged.
    """
    limit = 4 * max(translator.config.max_src_tokens, 64)
    kept = HeldOutPairs([], [], [])
    src_tokenizer, tgt_tokenizer = translator.tokenizers
    for src, tgt in pairs:
        ids = src_tokenizer.encode(single_spaced(src)), tgt_tokenizer.encode(single_spaced(tgt))
        if max(map(len, ids)) < limit:
            kept.sources.append(src)
            kept.references.append(tgt)
            kept.ids.append(ids)
    if not kept.ids:
        raise InputError(f"no evaluation pair is shorter than {limit} tokens")
    if n_left := len(pairs) - len(kept.ids):
        log.warning(
            "skipped %d of %d evaluation pairs with %d tokens or more", n_left, len(pairs), limit
        )
    return kept


def evaluate(translator: Translator, pairs: HeldOutPairs, *, batch_tokens: int) -> Evaluation:
    """Translate the sources greedily and score them; measure the loss of the references.

    Of the model's decoding defaults only `max_new_tokens` is used, which depends on the language.

    Raises:
        FloatingPointError: if the loss is not finite.
    """
    dev_loss = measure_loss(translator, pairs, batch_tokens=batch_tokens)
    if not math.isfinite(dev_loss):
        raise FloatingPointError(f"validation loss {dev_loss}")
    greedy = DecodingConfig(beam_size=1, max_new_tokens=translator.decoding.max_new_tokens)
    texts = decode_pairs(translator, pairs, greedy, batch_tokens=batch_tokens)
    return Evaluation(
        dev_loss=dev_loss, scores=score_corpus(texts, pairs.references), translations=tuple(texts)
    )


@torch.inference_mode()
def measure_loss(translator: Translator, pairs: HeldOutPairs, *, batch_tokens: int) -> float:
    """Return the mean negative log-likelihood of the references, nats per non-pad token."""
    model = translator.model
    total = torch.zeros((), device=translator.device)
    n_tokens = 0
    for rows in plan_epoch(measure_lengths(pairs.ids), batch_tokens=batch_tokens, seed=0):
        batch = collate([pairs.ids[row] for row in rows.tolist()], translator.tokenizers).to(
            translator.device
        )
        memory = model.encode(*batch.src)
        hidden = batch.pick(model.decode(batch.tgt_in, memory, batch.src.src_pad_mask))
        weight = model.output_proj.weight
        total += projected_cross_entropy(hidden, weight, batch.labels, label_smoothing=0.0).nll
        n_tokens += len(batch.labels)
    return float(total) / n_tokens


def decode_pairs(
    translator: Translator,
    pairs: HeldOutPairs,
    decoding: DecodingConfig,
    *,
    batch_tokens: int = DEFAULT_BATCH_TOKENS,
    phase: str = "",
) -> list[str]:
    """Translate the sources unsplit, with a progress bar if the phase has a name.

    An empty source gives an empty translation.
    """
    tokenizer, texts = translator.tokenizers.tgt, [""] * len(pairs.ids)
    rows = [(len(src), row) for row, (src, _) in enumerate(pairs.ids) if src]
    rows.sort(reverse=True)  # similar lengths together
    options = {"total": len(rows), "unit": " lines"}
    with progress_bar(phase, **options) if phase else contextlib.nullcontext() as bar:
        for start in range(0, len(rows), CHUNK):
            chunk = [row for _, row in rows[start : start + CHUNK]]
            sources = [pairs.ids[row][0] for row in chunk]
            search = translator.engine.search(sources, decoding, max_batch_tokens=batch_tokens)
            for row, hypotheses in zip(chunk, run_to_end(search), strict=True):
                texts[row] = tokenizer.decode_line(hypotheses[0].ids)
            if bar is not None:
                bar.update(len(chunk))
    return texts


def quality(scores: Mapping[str, Any]) -> tuple[bool, float]:
    """Return the key by which validations are compared, from BLEU and chrF."""
    is_useful = scores["bleu"] >= USEFUL_BLEU
    return is_useful, scores["bleu" if is_useful else "chrf"]
