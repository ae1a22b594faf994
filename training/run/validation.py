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

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hubnmt.checkpoint.folder import StoredModel, repair_folder, save_model
from hubnmt.config import DecodingConfig
from hubnmt.model import Transformer
from hubnmt.translator import Translator
from training.config.recipe import RunConfig
from training.data.prepare import Corpus
from training.files import explain_failed_save
from training.optim.averaging import average, copy_weights, with_weights
from training.run.best_record import read_note, write_note
from training.run.checkpoint import Parts, Progress
from training.run.evaluate import Evaluation, HeldOutPairs, encode_pairs, evaluate
from training.run.logging import Best, RunReport
from training.run.throughput import peak_memory_mib

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
