"""The sections of a recipe that say how to learn: optimizer, run, log; and what the card adds.

Takes plain values, gives frozen, validated dataclasses; `training.config.recipe` reads them from a recipe.
Must not know the data, the model or torch.
"""

import dataclasses
import re
from typing import Literal

from hubnmt.config import FromDict, require

NAME = re.compile(r"[^/\\:]*[^/\\:\s.][^/\\:]*")
"""Of one folder on any system, and no way to another."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig(FromDict):
    """One optimizer step."""

    lr: float = 5e-3
    """Peak learning rate; with `noam` the factor of the paper's formula, which has none (1.0)."""
    schedule: Literal["inverse_sqrt", "noam", "cosine", "constant"] = "inverse_sqrt"
    """How the rate goes on after the warm-up, see `training.optim.lr_schedule`."""
    warmup_steps: int = 2000
    """Steps of linear rise to the peak."""
    decay_steps: int | None = None
    """Step at which `cosine` arrives at `min_lr` and stays; it needs one."""
    min_lr: float = 0.0
    """Lowest rate of `cosine`."""
    betas: tuple[float, float] = (0.9, 0.98)
    """AdamW's decay rates (Vaswani et al. 2017, section 5.3)."""
    weight_decay: float = 0.0
    """AdamW's decoupled decay, of the matrices of linear layers; norms, biases and embeddings have
    none."""
    label_smoothing: float = 0.1
    """Probability spread over all pieces."""
    r_drop: float = 0.0
    """Weight of the distance between two passes with different dropout (Liang et al. 2021); costs a
    second pass; 0 means off, 5 is their value for translation."""
    grad_clip_norm: float = 1.0
    """Largest gradient norm; 0 means no clipping."""
    batch_tokens: int = 4096
    """Padded tokens per forward pass and process, on the longer side; at most that many, unless one
    pair is longer or `data.bpe_dropout` splits some into more, see there."""
    accumulate: int = 1
    """Forward passes per optimizer step and process."""

    def __post_init__(self) -> None:
        """Check ranges."""
        decay = self.decay_steps
        require(
            (0 < self.lr < float("inf"), f"lr = {self.lr} must be above 0"),
            (0 <= self.min_lr <= self.lr, f"min_lr = {self.min_lr} must be 0 to lr = {self.lr}"),
            (
                self.schedule != "cosine" or decay is not None,
                "schedule = 'cosine' needs decay_steps, the step of the lowest rate",
            ),
            (
                decay is None or decay > self.warmup_steps,
                f"decay_steps = {decay} must be above warmup_steps = {self.warmup_steps}",
            ),
            (
                self.schedule != "noam" or self.warmup_steps >= 1,
                "schedule = 'noam' needs warmup_steps of at least 1",
            ),
            (
                all(0 <= beta < 1 for beta in self.betas),
                f"betas = {self.betas} must each be in [0, 1)",
            ),
            (self.weight_decay >= 0, f"weight_decay = {self.weight_decay} must be 0 or more"),
            (self.warmup_steps >= 0, f"warmup_steps = {self.warmup_steps} must be 0 or more"),
            (
                0 <= self.label_smoothing < 1,
                f"label_smoothing = {self.label_smoothing} not in [0, 1)",
            ),
            (self.r_drop >= 0, f"r_drop = {self.r_drop} must be 0 or more"),
            (self.grad_clip_norm >= 0, f"grad_clip_norm = {self.grad_clip_norm} must be 0 or more"),
            (self.batch_tokens >= 1, f"batch_tokens = {self.batch_tokens} must be at least 1"),
            (self.accumulate >= 1, f"accumulate = {self.accumulate} must be at least 1"),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings(FromDict):
    """How long, how often, where."""

    name: str
    """Name of the run folder in `folder`."""
    folder: str = "runs"
    """Where run folders are made."""
    pretrained: str = ""
    """Model to start from in place of random weights: a bundled name, a model folder such as
    `runs/NAME/best`, or `user/name[@revision]` on the Hub. Its shape and its vocabulary are kept,
    so `[model]` and `[tokenizer]` may be left out; dropout is the recipe's own if it names one.
    Empty: from scratch."""
    max_steps: int = 20_000
    """Optimizer steps at most."""
    max_minutes: float | None = None
    """Wall-clock limit, minutes; a resumed run counts what it used before."""
    eval_every: int = 250
    """Steps between validations; each also takes a snapshot for averaging."""
    save_every: int = 250
    """Steps between saves of the state: what a power cut can cost. A validation saves too."""
    judged: Literal["average", "ema", "raw"] = "average"
    """Which weights a validation judges and `best/` and `last/` hold: the mean of the last
    `average_last` snapshots, the moving average of `ema_decay`, or the weights as they stand."""
    average_last: int = 10
    """Snapshots in the mean."""
    ema_decay: float = 0.999
    """Share of its own past that the moving average keeps at each step; it starts lower."""
    patience: int = 20
    """Stop after this many validations without a better BLEU."""
    log_every: int = 50
    """Steps between log lines."""
    n_samples: int = 6
    """Validation sentences followed in `samples.md`."""
    seed: int = 1
    """Seed of everything random."""
    device: str = "auto"
    """`auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1`, ..."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """Precision of the matrix products (autocast); weights and sums stay float32. `float16`, for
    GPUs without bfloat16, scales the loss and skips the steps that overflow. `auto`: what the
    machine is fastest at."""
    compile: bool = False
    """Let `torch.compile` fuse encoder and decoder: a slow start, then faster steps on a GPU."""
    n_threads: int = 0
    """CPU threads, at most one for each core; 0 leaves torch's choice."""

    def __post_init__(self) -> None:
        """Check ranges."""
        counts = ("max_steps", "eval_every", "save_every", "average_last", "patience", "log_every")
        require(
            *(
                (getattr(self, name) >= 1, f"{name} = {getattr(self, name)} must be at least 1")
                for name in counts
            ),
            (
                self.max_minutes is None or self.max_minutes > 0,
                f"max_minutes = {self.max_minutes} must be above 0",
            ),
            (
                bool(NAME.fullmatch(self.name)) and self.name.isprintable(),
                f"name = {self.name!r} names no folder in {self.folder}: choose a word",
            ),
            (0 <= self.ema_decay < 1, f"ema_decay = {self.ema_decay} must be in [0, 1)"),
            (self.n_samples >= 0, f"n_samples = {self.n_samples} must be 0 or more"),
            (self.n_threads >= 0, f"n_threads = {self.n_threads} must be 0 or more"),
            (0 <= self.seed < 2**63, f"seed = {self.seed} must be 0 to 2^63 - 1"),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LogConfig(FromDict):
    """Where the numbers go beside the run folder."""

    hook: Literal["trackio", "wandb"] | None = None
    """A tracker to send them to as well; to be installed, and for wandb logged in, beforehand."""
    project: str = "hubnmt"
    """Name of the project there; the run has the name of its folder."""

    def __post_init__(self) -> None:
        """A tracker wants a name."""
        require((bool(self.project.strip()), "project is empty: name one"))


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CardConfig(FromDict):
    """What a model card needs and no measurement can tell."""

    title: str = ""
    """First heading."""
    data: str = ""
    """The training data in a sentence."""
    data_license: str = ""
    """Licence of the data in a sentence."""
    license: str = "other"
    """Licence identifier of the weights, as the Hub lists them."""
    datasets: tuple[str, ...] = ()
    """Hub names of the data."""
    limits: str = ""
    """What the model cannot do."""
    bias: str = ""
    """What the data makes the model assume about people."""
    citation: str = ""
    """How to cite, BibTeX or a sentence."""
