"""One training run, from raw text to a finished model folder.

    python -m training.train RECIPE.toml [--set section.key=value ...] [--resume RUN_DIR]

Takes a recipe, gives a run folder: `best/` and `last/` model folders, resumable state,
`metrics.jsonl`, `samples.md`, TensorBoard events, the resolved recipe. Must not know the app.
"""

import argparse
import dataclasses
import json
import logging
import platform
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from tqdm import tqdm

import hubnmt
from hubnmt.checkpoint import StoredModel, save_model, write_json
from hubnmt.config import DecodingConfig
from hubnmt.errors import ConfigError, HubNMTError, InputError
from hubnmt.model import Transformer
from hubnmt.tokenizer import Tokenizer
from hubnmt.translator import Translator
from training.batches import Batch, Pair, collate, plan_epoch
from training.config import RunConfig, load_recipe
from training.corpora import CleaningReport, TextPair, clean, drop_long, load_split
from training.evaluate import Evaluation, evaluate
from training.loss import projected_cross_entropy
from training.report import RunReport
from training.schedule import inverse_sqrt
from training.state import Progress, average, load_state, save_state

log = logging.getLogger("training")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """What the run learns from and chooses on."""

    train: list[Pair]
    """Ids of the kept training pairs."""
    valid: list[TextPair]
    """Validation texts."""
    report: CleaningReport
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer


def prepare_corpus(config: RunConfig, folder: Path) -> Corpus:
    """Read, clean, learn the vocabulary on the training split (once per run folder), encode."""
    texts, report = clean(load_split(config.data, "train"), config.data)
    valid = [(src.strip(), tgt.strip()) for src, tgt in load_split(config.data, "valid")]
    if not texts or not valid:
        raise InputError(f"nothing to train on: {report}; {len(valid)} validation pairs")
    src_tokenizer, tgt_tokenizer = _tokenizers(config, folder, texts)
    src_ids = src_tokenizer.encode_batch([src for src, _ in texts])
    tgt_ids = tgt_tokenizer.encode_batch([tgt for _, tgt in texts])
    pairs = drop_long(
        zip(src_ids, tgt_ids, strict=True), max_tokens=config.data.max_tokens, report=report
    )
    if not pairs:
        raise InputError(f"nothing to train on: {report}")
    write_json(folder / "cleaning.json", report.to_dict())
    log.info("data: %s", report)
    return Corpus(
        train=list(pairs),
        valid=valid,
        report=report,
        src_tokenizer=src_tokenizer,
        tgt_tokenizer=tgt_tokenizer,
    )


def _tokenizers(
    config: RunConfig, folder: Path, texts: Sequence[TextPair]
) -> tuple[Tokenizer, Tokenizer]:
    """Load the run's tokenizers, or train them on the training texts and keep them there."""
    vocab_size = config.tokenizer.vocab_size
    if config.tokenizer.joint:
        path = folder / "tokenizer.json"
        if not path.exists():
            Tokenizer.train((side for pair in texts for side in pair), vocab_size).save(path)
        joint = Tokenizer.load(path)
        return joint, joint
    paths = folder / "tokenizer_src.json", folder / "tokenizer_tgt.json"
    for side, path in enumerate(paths):
        if not path.exists():
            Tokenizer.train((pair[side] for pair in texts), vocab_size).save(path)
    return Tokenizer.load(paths[0]), Tokenizer.load(paths[1])


class Run:
    """The moving parts of one run and its loop."""

    def __init__(self, config: RunConfig, folder: Path, corpus: Corpus) -> None:
        """Build model and optimizer from the seed."""
        self.config = config
        self.folder = folder
        self.corpus = corpus
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
        bar = tqdm(total=settings.max_steps, initial=progress.step, unit="step", file=sys.stderr)
        evaluation = None
        meter = Meter()
        batches = self._batches()
        started = time.monotonic() - progress.seconds
        while not self._is_over():
            lr = self._set_lr()
            loss, grad_norm, n_tokens = self._step(batches)
            progress.step += 1
            progress.seconds = time.monotonic() - started
            meter.add(loss, n_tokens)
            bar.update()
            if progress.step % settings.log_every == 0:
                self._log(meter, lr=lr, grad_norm=grad_norm, bar=bar)
                meter = Meter()
            if progress.step % settings.eval_every == 0:
                evaluation = self._validate()
                progress.seconds = time.monotonic() - started
                self._save()
        bar.close()
        self._save()
        self.report.close()
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
        corpus, progress = self.corpus, self.progress
        while True:
            seed = hash((self.config.run.seed, progress.epoch))
            plan = plan_epoch(
                corpus.train, batch_tokens=self.config.optimizer.batch_tokens, seed=seed
            )
            for rows in plan[progress.batch :]:
                progress.batch += 1
                yield collate(
                    [corpus.train[row] for row in rows],
                    src_tokenizer=corpus.src_tokenizer,
                    tgt_tokenizer=corpus.tgt_tokenizer,
                ).to(self.device)
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
            with torch.autocast(
                self.device.type, torch.bfloat16, enabled=self.config.run.dtype == "bfloat16"
            ):
                memory = model.encode(*batch.src)
                hidden = model.decode(batch.tgt_in, memory, batch.src.src_pad_mask)
                loss = projected_cross_entropy(
                    hidden[batch.is_label],
                    model.output_proj.weight,
                    batch.labels,
                    label_smoothing=settings.label_smoothing,
                ).smoothed
            (loss / n_tokens).backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            total += float(loss.detach())
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
        averaged = Transformer(self.model.config).to(self.device)
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
        chosen = range(0, len(self.corpus.valid), max(1, len(self.corpus.valid) // 6))
        rows = [(*self.corpus.valid[i], evaluation.translations[i]) for i in chosen]
        self.report.add_samples(self.progress.step, rows[: self.config.run.n_samples])
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
        raise ConfigError(f"run.device = {name!r} is no device; try auto, cpu or cuda") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"run.device = {name!r}, but no GPU is there; try auto or cpu")
    return device


def seed_everything(seed: int) -> None:
    """Seed Python and torch, all devices."""
    random.seed(seed)
    torch.manual_seed(seed)


def open_folder(config: RunConfig, resume: Path | None) -> Path:
    """Make the run's folder, or check that the one to resume belongs to this recipe.

    Raises:
        ConfigError: if a new run would overwrite an old one, or the recipes differ.
    """
    recipe = config.to_dict()
    if resume is None:
        folder = Path(config.run.folder) / config.run.name
        if (folder / "recipe.json").exists():
            raise ConfigError(
                f"{folder} holds a run already: go on with --resume {folder}, "
                "or choose another --set run.name=NAME"
            )
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / "recipe.json", recipe)
        return folder
    try:
        stored = json.loads((resume / "recipe.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ConfigError(f"{resume}: no run to resume (recipe.json cannot be read)") from None
    differences = list(_differences(stored, json.loads(json.dumps(recipe))))
    if differences:
        raise ConfigError(f"{resume} belongs to another recipe: {'; '.join(differences)}")
    return resume


FREE_ON_RESUME = {"run": {"folder", "max_steps", "max_minutes", "patience", "device", "n_threads"}}
"""Settings that may change when a run goes on: they decide when it stops, not what it learns."""


def _differences(stored: dict[str, Any], recipe: dict[str, Any]) -> Iterator[str]:
    for section, values in recipe.items():
        old = stored.get(section, {})
        for key in sorted({*values, *old} - FREE_ON_RESUME.get(section, set())):
            if values.get(key) != old.get(key):
                yield f"{section}.{key} was {old.get(key)!r}, is {values.get(key)!r}"


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Record what ran where, for the card and for whoever repeats it."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    return {
        "hubnmt": hubnmt.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": gpu or f"{platform.machine()} CPU, {torch.get_num_threads()} threads",
        "git_commit": commit or None,
        "command": " ".join(["python -m training.train", *sys.argv[1:]]),
    }


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
    """Carry out one run: parse, data, model, loop."""
    config = load_recipe(recipe, overrides)
    if config.run.n_threads:
        torch.set_num_threads(config.run.n_threads)
    device = pick_device(config.run.device)
    folder = open_folder(config, resume)
    write_json(folder / "machine.json", describe_machine(device))
    current = Run(config, folder, prepare_corpus(config, folder))
    if resume is not None and (folder / "state.pt").exists():
        current.progress = load_state(folder, model=current.model, optimizer=current.optimizer)
        log.info("resumed at step %d", current.progress.step)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        log.warning("stopping after this step; go on with --resume %s", folder)
        current.must_stop = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    previous = signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        current.train()
    finally:
        signal.signal(signal.SIGINT, previous)
    best = current.progress
    log.info("best validation BLEU %.2f at step %d: %s", best.best_bleu, best.best_step, folder)
    return current


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line.

    Returns:
        the exit status: 0 done, 1 the numbers broke, 2 the request was wrong.
    """
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr
    )
    options = parse_arguments(arguments)
    try:
        run(options.recipe, overrides=options.set, resume=options.resume)
    except HubNMTError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except FloatingPointError as error:
        print(f"error: training stopped: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
