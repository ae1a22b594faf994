"""The report of a run: metrics.jsonl, samples.md, TensorBoard, throughput, memory, and its card."""

import json
import logging
import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from hubnmt.attention.maps import Attention
from hubnmt.checkpoint.card import CardFacts, escape_cell
from hubnmt.checkpoint.files import (
    BOARD,
    MAX_BOARD_MIB,
    MAX_RECORD_MIB,
    METRICS,
    SAMPLES,
    read_json,
)
from hubnmt.config import ModelConfig
from training.files import replace_text, reporting_write_errors
from training.run.finetune import describe_pretrained
from training.run.run_dir import KeptModel

try:  # TensorBoard is optional
    from torch.utils.tensorboard import SummaryWriter
except ImportError:
    SummaryWriter = None  # type: ignore[assignment,misc]  # optional dependency

try:
    import resource
except ImportError:  # not available on Windows
    resource = None  # type: ignore[assignment]  # checked before use

log = logging.getLogger("training")

SAMPLE_TABLES = re.compile(r"(?m)^(?=## Step )")


class RunReport:
    """Writes metrics, samples and attention; files are appended to, also on resume."""

    def __init__(self, folder: Path, *, step: int = -1) -> None:
        """Open the run's files for appending, and remove records after a step.

        A killed run may have logged steps after its last checkpoint.
        """
        self._metrics, self._samples = folder / METRICS, folder / SAMPLES
        self._attention = folder / "attention.jsonl"
        self._board: SummaryWriter | None = None
        self._board_folder = folder / "tensorboard"
        self._rewind(step)
        if SummaryWriter is not None:
            with reporting_write_errors(self._board_folder):
                self._board = SummaryWriter(str(self._board_folder), purge_step=step + 1)
        else:
            log.warning("tensorboard is not installed; metrics are in metrics.jsonl only")

    def add(self, step: int, kind: str, values: Mapping[str, Any]) -> None:
        """Record metrics of a kind, `train` or `valid`; TensorBoard gets the numbers only."""
        finite = {name: _finite(value) for name, value in values.items()}
        record = {"step": step, "kind": kind, "time": round(time.time(), 1), **finite}
        _append(self._metrics, json.dumps(record) + "\n")
        if self._board is not None:
            with reporting_write_errors(self._board_folder):
                for name, value in values.items():
                    if isinstance(value, (int, float)):
                        self._board.add_scalar(f"{kind}/{name}", value, step)

    def add_samples(self, step: int, rows: Sequence[tuple[str, ...]]) -> None:
        """Append translations of a fixed set of sentences: (source, reference, translation)."""
        title = "" if self._samples.exists() else "# The same sentences as the model learns\n\n"
        table = ["| source | reference | translation |", "|---|---|---|"]
        table += ["| " + " | ".join(map(escape_cell, row)) + " |" for row in rows]
        text = "\n".join(table)
        _append(self._samples, f"{title}\n## Step {step:,}\n\n{text}\n")
        if self._board is not None:
            with reporting_write_errors(self._board_folder):
                self._board.add_text("samples", text, step)

    def add_attention(self, step: int, found: Attention) -> None:
        """Append the attention from target to source tokens, the mean over heads of each layer."""
        weights = found.cross.mean(1).tolist()  # (L, T, S)
        rounded = [[[round(w, 3) for w in row] for row in layer] for layer in weights]
        tokens = {"src": found.src_tokens, "tgt": found.tgt_tokens}
        record = {"step": step, **tokens, "layers": rounded}
        _append(self._attention, json.dumps(record) + "\n")

    def _rewind(self, step: int) -> None:
        for records in (self._metrics, self._attention):
            if records.exists():
                lines = records.read_text(encoding="utf-8").splitlines(keepends=True)
                replace_text(records, "".join(line for line in lines if _step_of(line) <= step))
        if self._samples.exists():
            text = self._samples.read_text(encoding="utf-8")
            head, *tables = SAMPLE_TABLES.split(text)
            kept = [table for table in tables if _table_step(table) <= step]
            replace_text(self._samples, head + "".join(kept))

    def close(self) -> None:
        """Close TensorBoard."""
        if self._board is not None:
            with reporting_write_errors(self._board_folder):
                self._board.close()


def _append(path: Path, text: str) -> None:
    with reporting_write_errors(path), path.open("a", encoding="utf-8") as file:
        file.write(text)


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _step_of(line: str) -> float:
    """Return the step of a record; infinity for a truncated line."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return math.inf


def _table_step(table: str) -> float:
    number = re.match(r"## Step ([\d,]+)", table)
    return float(number.group(1).replace(",", "")) if number else math.inf


def copy_records(run_dir: Path, model_folder: Path) -> None:
    """Copy metrics, sample translations and TensorBoard events of a run into a model folder.

    Metrics and samples above the limit are subsampled evenly, larger events are left out.
    """
    limit = MAX_RECORD_MIB * 2**20
    if (run_dir / METRICS).is_file():
        lines = (run_dir / METRICS).read_text(encoding="utf-8").splitlines(keepends=True)
        replace_text(model_folder / METRICS, _subsample(lines, limit))
    if (run_dir / SAMPLES).is_file():
        text = (run_dir / SAMPLES).read_text(encoding="utf-8")
        head, *tables = SAMPLE_TABLES.split(text)
        replace_text(model_folder / SAMPLES, head + _subsample(tables, limit - len(head.encode())))
    files = sorted((run_dir / "tensorboard").glob("*tfevents*"))
    if files and sum(file.stat().st_size for file in files) <= MAX_BOARD_MIB * 2**20:
        target = model_folder / BOARD
        with reporting_write_errors(target):
            target.parent.mkdir(exist_ok=True)
            # Event files are sequences of records, so they can be joined.
            target.write_bytes(b"".join(file.read_bytes() for file in files))


def _subsample(parts: Sequence[str], limit: int) -> str:
    """Join every n-th part, the last included, so that they fit into a number of bytes."""
    size = sum(len(part.encode()) for part in parts)
    n = max(1, math.ceil(size / limit))
    while n < len(parts) and sum(len(part.encode()) for part in parts[::-n]) > limit:
        n += 1
    return "".join(parts[::-n][::-1])


class Throughput:
    """Mean loss and tokens per second since the last log line."""

    def __init__(self) -> None:
        """Start the clock."""
        self._started = time.monotonic()
        self._loss = 0.0
        self._n_tokens = 0

    def add(self, loss: float, n_tokens: int) -> None:
        """Add one step."""
        self._loss += loss * n_tokens
        self._n_tokens += n_tokens

    def pause(self, seconds: float) -> None:
        """Exclude time not spent on training, such as a validation."""
        self._started += seconds

    def to_dict(self) -> dict[str, float]:
        """Return nats per token and target tokens per second."""
        seconds = max(time.monotonic() - self._started, 1e-9)
        n_tokens = max(self._n_tokens, 1)
        return {"loss": self._loss / n_tokens, "tokens_per_s": n_tokens / seconds}


def peak_memory_mib(device: torch.device) -> float:
    """Return the peak memory in MiB: allocated on the GPU, or resident on a CPU; else NaN."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if resource is None:
        return math.nan
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)  # bytes there, KiB elsewhere


# --- the model card ------------------------------------------------------------------------------

Record = Mapping[str, Any]
"""A JSON file of the run's folder."""
SAME_NAME = ("title", "license", "data", "data_license", "limits", "bias", "citation")
"""Settings of `[card]` that `CardFacts` takes as they are."""


def facts_of_run(
    run_dir: Path,
    validation: Record,
    *,
    name: str,
    config: ModelConfig,
    weights: KeptModel = "best",
) -> CardFacts:
    """Collect the contents of the card that are in the run's records.

    `validation` is the record of the validation of the weights.
    """
    # 1. Read the records.
    recipe, cleaning = read_json(run_dir / "recipe.json"), read_json(run_dir / "cleaning.json")
    machine, card = read_json(run_dir / "machine.json"), recipe["card"]
    # 2. Describe the data, and the model that the run started from.
    dropped = ", ".join(f"{count:,} {why}" for why, count in cleaning["dropped"].items())
    data = recipe["data"]
    datasets = [part.get("dataset") for part in (data, *data["corpora"].values())]
    pretrained = machine["pretrained"] or {}
    started_from = describe_pretrained(pretrained) if pretrained else ""
    if started_from == name:  # the name alone would refer to the card itself
        started_from = f"an earlier {name}"
    return CardFacts(
        name=name,
        config=config,
        **{key: card[key] for key in SAME_NAME if key in card},
        datasets=tuple(card["datasets"] or dict.fromkeys(filter(None, datasets))),
        recipe=_recipe_lines(recipe),
        cleaning=f"{cleaning['n_kept']:,} of {cleaning['n_read']:,} training pairs kept; "
        f"dropped: {dropped or 'none'}.",
        training={
            "started from": started_from or None,
            **_training_facts(recipe, machine, validation, weights=weights),
        },
        started_from=started_from,
        base_model=pretrained["name"] if pretrained.get("commit") else "",
    )


def _training_facts(
    recipe: Record, machine: Record, validation: Record, *, weights: str
) -> dict[str, Any]:
    """Return the records of the run and of the chosen weights."""
    return {
        "machine": f"{machine['device']}, {machine['dtype']}",
        f"minutes until the {weights} weights": round(validation["minutes"], 1),
        f"steps until the {weights} weights": validation["step"],
        "weights": describe_average(recipe["run"])
        if validation["step"]
        else "those of the pretrained model: no validation improved on it",
        "validation, greedy": f"BLEU {validation['bleu']:.2f} "
        f"(`{validation['bleu_signature']}`), loss {validation['dev_loss']:.3f} nats per token",
        "seed": recipe["run"]["seed"],
        "versions": f"hubnmt {machine['hubnmt']}, torch {machine['torch']}",
    }


def describe_average(run: Mapping[str, Any]) -> str:
    """Describe which weights `best/` holds, given the `[run]` section of the recipe."""
    if run["average_last"] == 1 or run.get("judged") == "raw":
        return "as training left them at that step"
    return f"mean of the last {run['average_last']} snapshots, one every {run['eval_every']} steps"


def _recipe_lines(recipe: Mapping[str, Any]) -> str:
    """Return the tokenizer, model and optimizer settings as TOML, which has no null."""
    lines = []
    for section in ("tokenizer", "model", "optimizer"):
        values = {key: value for key, value in recipe[section].items() if value is not None}
        lines += [f"[{section}]", *(f"{key} = {json.dumps(v)}" for key, v in values.items())]
    return "\n".join(lines)
