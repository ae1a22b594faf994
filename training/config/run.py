"""The `[optimizer]`, `[run]` and `[card]` sections of a recipe."""

import dataclasses
import re
from typing import Literal

from hubnmt.schema import FromDict, above_zero, at_least, require

NAME = re.compile(r"[^/\\:]*[^/\\:\s.][^/\\:]*")
"""Valid name of a single folder on any operating system."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig(FromDict):
    """Optimizer, learning-rate schedule, loss and batch size."""

    lr: float = 5e-3
    """Peak learning rate of Adam."""
    schedule: Literal["linear", "inverse_sqrt", "cosine", "constant"] = "linear"
    """Learning-rate schedule, see `training.optim.step`. `linear` follows the budget: it
    falls to 0 at `run.max_steps` or `run.max_minutes`, whichever is used up first."""
    warmup_steps: int | None = None
    """Steps of linear warm-up to the peak; None, with `linear` only: a tenth of the budget."""
    decay_steps: int | None = None
    """Step at which `cosine` reaches 0; required for `cosine`."""
    label_smoothing: float = 0.1
    """Probability mass spread over the vocabulary."""
    grad_clip_norm: float = 1.0
    """Maximum gradient norm; 0 disables clipping."""
    batch_tokens: int = 0
    """Maximum number of padded tokens per forward pass and process, on the longer side; exceeded by
    a single longer pair, or with `data.bpe_dropout`. 0: 4096, or as few as 512 where otherwise less
    than 1000 steps would fit into `run.max_minutes`."""
    accumulate: int = 1
    """Forward passes per optimizer step and process."""

    def __post_init__(self) -> None:
        """Check ranges."""
        decay, warmup = self.decay_steps, self.warmup_steps
        require(
            *above_zero(self, "lr"),
            *at_least(self, 0, "grad_clip_norm", "batch_tokens"),
            *at_least(self, 1, "accumulate"),
            (warmup is None or warmup >= 0, f"warmup_steps = {warmup} must be at least 0"),
            (
                warmup is not None or self.schedule == "linear",
                f"schedule = {self.schedule!r} requires warmup_steps",
            ),
            (
                0 <= self.label_smoothing < 1,
                f"label_smoothing = {self.label_smoothing} not in [0, 1)",
            ),
            (
                self.schedule != "cosine" or decay is not None,
                "schedule = 'cosine' requires decay_steps, the step that reaches 0",
            ),
            (
                decay is None or decay > (warmup or 0),
                f"decay_steps = {decay} must be above warmup_steps = {warmup}",
            ),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class RunConfig(FromDict):
    """Duration, intervals, device and output folder of a run."""

    name: str
    """Name of the run folder in `folder`."""
    folder: str = "runs"
    """Parent folder of run folders."""
    pretrained: str = ""
    """Pretrained model to start from: a bundled name, a model folder such as `runs/NAME/best`, or
    `user/name[@revision]` on the Hub. Its architecture and vocabulary are used, so `[model]` and
    `[tokenizer]` may be omitted; dropout is taken from the recipe if set there. Empty: train from
    scratch."""
    pretrained_part: Literal["model", "encoder"] = "model"
    """`encoder`: take the encoder and the source vocabulary only, for a new target language (Zoph
    et al. 2016, https://aclanthology.org/D16-1163/)."""
    max_steps: int = 20_000
    max_minutes: float | None = None
    """Time limit in minutes for training and validations, over all sessions of a run."""
    eval_every: int = 250
    """Steps between validations."""
    save_every: int = 250
    """Steps between saved states; a validation also saves one."""
    average_last: int = 1
    """Validate and save the mean of the weights at this many validations; 1 takes the current
    weights. A mean helps where the learning rate does not fall to 0."""
    patience: int = 20
    """Early stopping after this many validations without a better score: BLEU, but chrF between
    models whose BLEU is under 5, where it says little."""
    log_every: int = 50
    n_samples: int = 6
    """Number of validation sentences in `samples.md`."""
    seed: int = 1
    device: str = "auto"
    """`auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1`, ..."""
    dtype: Literal["auto", "bfloat16", "float32"] = "auto"
    """Autocast precision of matrix products; weights and sums stay float32. `auto`: the fastest for
    the device."""
    n_threads: int = 0
    """CPU threads; 0: one or torch's default, whichever is faster at the start of the run. More
    threads than idle cores make a small model many times slower."""

    def __post_init__(self) -> None:
        """Check ranges."""
        require(
            *at_least(self, 1, "max_steps", "eval_every", "save_every", "log_every"),
            *at_least(self, 1, "average_last", "patience"),
            *at_least(self, 0, "n_samples", "n_threads"),
            *above_zero(self, "max_minutes"),
            (
                bool(NAME.fullmatch(self.name)) and self.name.isprintable(),
                f"name = {self.name!r} is not a valid folder name in {self.folder}: choose a word",
            ),
            (0 <= self.seed < 2**63, f"seed = {self.seed} must be 0 to 2^63 - 1"),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class CardConfig(FromDict):
    """Texts of the model card."""

    title: str = ""
    data: str = ""
    """Description of the training data, one sentence."""
    data_license: str = ""
    """Licence of the data, one sentence."""
    license: str = "other"
    """Licence identifier of the weights, as on the Hub."""
    datasets: tuple[str, ...] = ()
    """Hub names of the datasets; by default those of `[data]`."""
    limits: str = ""
    bias: str = ""
    """Social biases of the training data."""
    citation: str = ""
    """Citation, BibTeX or a sentence."""
