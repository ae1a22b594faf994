"""One training run, from raw text to a finished model folder.

    python -m training.train RECIPE.toml [--set section.key=value ...] [--resume RUN_DIR]

Takes a recipe, gives a run folder: `best/` and `last/` model folders, resumable state,
`metrics.jsonl`, `samples.md`, TensorBoard events, the resolved recipe. Must not know the app.
"""

import argparse
import contextlib
import copy
import logging
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from hubnmt.checkpoint import StoredModel, save_model
from hubnmt.config import DecodingConfig
from hubnmt.errors import ConfigError, HubNMTError
from hubnmt.model import Transformer
from hubnmt.translator import Translator
from training.batches import Batch
from training.config import RunConfig
from training.evaluate import Evaluation, evaluate
from training.fitting import explain_out_of_memory, is_out_of_memory
from training.loss import projected_cross_entropy
from training.prepare import Corpus, prepare_corpus
from training.report import RunReport
from training.run_folder import (
    choose_folder,
    claim_folder,
    load_settings,
    make_folder,
)
from training.schedule import inverse_sqrt
from training.state import STATE_FILE, Progress, average, load_state, save_state
from training.stream import BatchStream

log = logging.getLogger("training")


class Run:
    """The moving parts of one run and its loop."""

    def __init__(self, config: RunConfig, folder: Path, corpus: Corpus) -> None:
        """Build model and optimizer from the seed."""
        self.config = config
        self.folder = folder
        self.corpus = corpus
        self.stream = BatchStream(config, corpus)
        self.device = pick_device(config.run.device)
        seed_everything(config.run.seed)
        model_config = config.model_config(
            src_vocab_size=corpus.src_tokenizer.vocab_size,
            tgt_vocab_size=corpus.tgt_tokenizer.vocab_size,
        )
        self.model = Transformer(model_config).to(self.device)
        settings = config.optimizer
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(),
            lr=settings.lr,
            betas=settings.betas,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.decoding = DecodingConfig.from_dict(config.decoding, where="[decoding]")
        self.progress = Progress()
        self.report = RunReport(folder)
        self.must_stop = False

    def train(self) -> Evaluation | None:
        """Loop until done, out of patience, or asked to stop; the state is saved in any case."""
        progress, settings = self.progress, self.config.run
        self.report.rewind(progress.step)
        batches, meter = self._batches(), Meter()
        evaluation, is_judged = None, True
        started = time.monotonic() - progress.seconds
        with (
            contextlib.closing(self.report),
            tqdm(total=settings.max_steps, initial=progress.step, unit="step") as bar,
            logging_redirect_tqdm(),
        ):
            while not self._is_over():
                lr, is_judged = self._set_lr(), False
                loss, grad_norm, n_tokens = self._step(batches)
                progress.step += 1
                progress.seconds = time.monotonic() - started
                meter.add(loss, n_tokens)
                bar.update()
                if progress.step % settings.log_every == 0:
                    self._log(meter, lr=lr, grad_norm=grad_norm, bar=bar)
                    meter = Meter()
                if progress.step % settings.eval_every == 0:
                    evaluation, is_judged = self._validate(), True
                    progress.seconds = time.monotonic() - started
                    self._save()
            self._save()
            # After the save: a run that goes on must not remember a validation out of turn.
            if not is_judged and not self.must_stop:
                evaluation = self._validate()
        return evaluation

    def _is_over(self) -> bool:
        progress, settings = self.progress, self.config.run
        minutes = settings.max_minutes
        return (
            self.must_stop
            or progress.step >= settings.max_steps
            or progress.n_worse >= settings.patience
            or (minutes is not None and progress.seconds >= 60 * minutes)
        )

    def _set_lr(self) -> float:
        settings = self.config.optimizer
        factor = inverse_sqrt(self.progress.step + 1, warmup_steps=settings.warmup_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = settings.lr * factor
        return settings.lr * factor

    def _batches(self) -> Iterator[Batch]:
        """Yield batches for ever, epoch after epoch, from where the run stands."""
        progress = self.progress
        while True:
            for batch in self.stream.epoch(progress.epoch, skip=progress.batch):
                progress.batch += 1
                yield batch.to(self.device)
            progress.epoch += 1
            progress.batch = 0

    def _step(self, batches: Iterator[Batch]) -> tuple[float, float, int]:
        """Do one optimizer step; the loss is divided by the real tokens of all its batches.

        Returns:
            smoothed loss in nats per token, gradient norm, target tokens.
        """
        settings, model = self.config.optimizer, self.model.train()
        step_batches = [next(batches) for _ in range(settings.accumulate)]
        n_tokens = sum(len(batch.labels) for batch in step_batches)
        total = 0.0
        for batch in step_batches:
            total += self._learn(batch, n_tokens)
        clip = settings.grad_clip_norm or float("inf")
        grad_norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), clip))
        if not (total < float("inf") and grad_norm < float("inf")):
            raise FloatingPointError(
                f"step {self.progress.step + 1}: loss {total / n_tokens} and gradient norm "
                f"{grad_norm}; lower optimizer.lr or raise optimizer.warmup_steps"
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total / n_tokens, grad_norm, n_tokens

    def _learn(self, batch: Batch, n_tokens: int) -> float:
        """Do forward and backward pass of one batch; memory that runs out is told with numbers."""
        try:
            return self._backward(batch, n_tokens)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        # Here the error is gone, and with it what its traceback held of the failed pass.
        settings = self.config.optimizer
        raise explain_out_of_memory(
            batch,
            lambda part: self._backward(part, n_tokens),
            batch_tokens=settings.batch_tokens,
            accumulate=settings.accumulate,
        )

    def _backward(self, batch: Batch, n_tokens: int) -> float:
        """Add the gradients of one batch; return its summed loss."""
        with torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.config.run.dtype == "bfloat16"
        ):
            memory = self.model.encode(*batch.src)
            hidden = self.model.decode(batch.tgt_in, memory, batch.src.src_pad_mask)
            loss = projected_cross_entropy(
                hidden[batch.is_label],
                self.model.output_proj.weight,
                batch.labels,
                label_smoothing=self.config.optimizer.label_smoothing,
            ).smoothed
        (loss / n_tokens).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return float(loss.detach())

    def _log(self, meter: "Meter", *, lr: float, grad_norm: float, bar: "tqdm[Any]") -> None:
        values = {**meter.to_dict(), "lr": lr, "grad_norm": grad_norm, "epoch": self.progress.epoch}
        self.report.add(self.progress.step, "train", values)
        bar.set_postfix_str(f"loss {values['loss']:.3f}, {values['tokens_per_s']:,.0f} tokens/s")
        log.info(
            "step %d  loss %.4f  lr %.2e  grad norm %.2f  %.0f tokens/s  %.1f min",
            self.progress.step,
            values["loss"],
            lr,
            grad_norm,
            values["tokens_per_s"],
            self.progress.seconds / 60,
        )

    def _validate(self) -> Evaluation:
        """Average the last snapshots, judge them, save `last/`, and `best/` if they are."""
        progress, settings = self.progress, self.config.run
        weights = {
            name: tensor.detach().clone() for name, tensor in self.model.state_dict().items()
        }
        progress.snapshots = [*progress.snapshots, weights][-settings.average_last :]
        averaged = copy.deepcopy(self.model)  # a new one would draw from the run's generator
        averaged.load_state_dict(average(progress.snapshots))
        stored = StoredModel(
            model=averaged.eval(),
            src_tokenizer=self.corpus.src_tokenizer,
            tgt_tokenizer=self.corpus.tgt_tokenizer,
            decoding=self.decoding,
        )
        evaluation = evaluate(
            Translator(stored, device=str(self.device)),
            self.corpus.valid,
            batch_tokens=self.config.optimizer.batch_tokens,
        )
        is_best = evaluation.scores.bleu > progress.best_bleu
        progress.n_worse = 0 if is_best else progress.n_worse + 1
        if is_best:
            progress.best_bleu, progress.best_step = evaluation.scores.bleu, progress.step
            save_model(self.folder / "best", stored)
        save_model(self.folder / "last", stored)
        self._report(evaluation, is_best=is_best)
        return evaluation

    def _report(self, evaluation: Evaluation, *, is_best: bool) -> None:
        values = {**evaluation.to_dict(), "minutes": self.progress.seconds / 60}
        self.report.add(self.progress.step, "valid", values)
        n_valid, n_samples = len(self.corpus.valid), self.config.run.n_samples
        chosen = range(0, n_valid, max(1, n_valid // max(1, n_samples)))[:n_samples]
        rows = [(*self.corpus.valid[i], evaluation.translations[i]) for i in chosen]
        self.report.add_samples(self.progress.step, rows)
        log.info(
            "step %d  validation: loss %.4f  BLEU %.2f  chrF %.2f%s  (%s)",
            self.progress.step,
            evaluation.dev_loss,
            evaluation.scores.bleu,
            evaluation.scores.chrf,
            "  best so far" if is_best else "",
            evaluation.scores.bleu_signature,
        )

    def _save(self) -> None:
        save_state(self.folder, model=self.model, optimizer=self.optimizer, progress=self.progress)


class Meter:
    """Loss and speed since the last log line."""

    def __init__(self) -> None:
        """Start the clock."""
        self._started = time.monotonic()
        self._loss = 0.0
        self._n_tokens = 0

    def add(self, loss: float, n_tokens: int) -> None:
        """Count one step."""
        self._loss += loss * n_tokens
        self._n_tokens += n_tokens

    def to_dict(self) -> dict[str, float]:
        """Return nats per token and target tokens per second."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        n_tokens = max(self._n_tokens, 1)
        return {"loss": self._loss / n_tokens, "tokens_per_s": n_tokens / seconds}


def pick_device(name: str) -> torch.device:
    """Resolve `auto`, and refuse a device that is not there.

    Raises:
        ConfigError: naming what there is.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"run.device = {name!r} is no device; try auto, cpu or cuda")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"run.device = {name!r}, but no GPU is there; try auto or cpu")
    return device


def seed_everything(seed: int) -> None:
    """Seed Python and torch, all devices."""
    random.seed(seed)
    torch.manual_seed(seed)


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.train", description=__doc__)
    parser.add_argument("recipe", type=Path, help="a TOML file, see training/recipes")
    parser.add_argument(
        "--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="override a setting"
    )
    parser.add_argument("--resume", type=Path, metavar="RUN_DIR", help="go on with a stopped run")
    return parser.parse_args(arguments)


def run(recipe: Path, *, overrides: Sequence[str], resume: Path | None) -> Run:
    """Carry out one run: settings, data, model, loop."""
    config, overrides = load_settings(recipe, overrides=overrides, resume=resume)
    if config.run.n_threads:
        torch.set_num_threads(config.run.n_threads)
    device = pick_device(config.run.device)
    folder = resume or choose_folder(config)
    corpus = prepare_corpus(config, resume)
    make_folder(folder)
    current = Run(config, folder, corpus)
    if resume is None:
        corpus.save(folder)
        claim_folder(folder, config, overrides=overrides, device=device)
    elif (folder / STATE_FILE).exists():
        current.progress = load_state(folder, model=current.model, optimizer=current.optimizer)
        log.info("resumed at step %d", current.progress.step)
    with _stop_politely(current):
        current.train()
    best = current.progress
    log.info("best validation BLEU %.2f at step %d: %s", best.best_bleu, best.best_step, folder)
    return current


@contextlib.contextmanager
def _stop_politely(current: Run) -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM end the run after its step; the second ends it at once."""

    def stop(number: int, _frame: FrameType | None) -> None:
        log.warning("stopping after this step; go on with --resume %s", current.folder)
        current.must_stop = True
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line.

    Returns:
        the exit status: 0 done, 1 the numbers broke, 2 the request was wrong, 130 interrupted.
    """
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr
    )
    options = parse_arguments(arguments)
    try:
        run(options.recipe, overrides=options.set, resume=options.resume)
    except HubNMTError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except FloatingPointError as error:
        print(f"error: training stopped: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the last saved state is whole", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
