"""The training loop: optimizer steps, logging, validation and checkpoints."""

import logging
import random
import time
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from hubnmt.errors import ConfigError
from hubnmt.inference.dtypes import resolve_training_dtype
from hubnmt.model.transformer import Transformer
from training.command import progress_bar
from training.config.recipe import Recipe
from training.data.loader import Loader, Position
from training.data.prepare import RunData
from training.distributed import ProcessGroup
from training.optim.step import REMEDY, Stepper, StepStats, rate_at, reporting_out_of_memory
from training.run.budget import Budget, plan_run
from training.run.checkpoint import Progress, load_state, random_states, save_state
from training.run.report import RunReport, Throughput
from training.run.run_dir import remove_results
from training.run.validation import Validator, read_validation

log = logging.getLogger("training")


class Trainer:
    """State of one run and its training loop."""

    def __init__(
        self,
        recipe: Recipe,
        folder: Path,
        run_data: RunData,
        group: ProcessGroup,
        *,
        resume: bool = False,
    ) -> None:
        """Build model and optimizer from the seed; then plan the run, or restore its state."""
        self.folder = folder
        self.run_data = run_data
        self.group = group
        self.progress = Progress()
        self.is_interrupted = False
        self._report: RunReport | None = None
        self._validator: Validator | None = None
        self._saved_step: int | None = None
        self._budget: Budget
        """Set by `train`."""
        # 1. Build the model: equal initial weights on all processes, but independent dropout.
        seed_everything(recipe.run.seed)
        model_config = recipe.model_config(
            src_vocab_size=run_data.tokenizers.src.vocab_size,
            tgt_vocab_size=run_data.tokenizers.tgt.vocab_size,
        )
        self.model = Transformer(model_config).to(group.device)
        if not group.is_rank0:
            seed_everything(hash((recipe.run.seed, group.rank)) % 2**63)
        # 2. Build the optimizer.
        dtype = resolve_training_dtype(recipe.run.dtype, group.device)
        self.stepper = Stepper(self.model, recipe.optimizer, group, dtype=dtype)
        # 3. Choose what the recipe leaves open, or restore the state.
        self.recipe = recipe if resume else plan_run(recipe, run_data, self.stepper)
        self.loader = Loader(self.recipe, run_data, group)
        if resume:
            self._restore()

    def _restore(self) -> None:
        """Restore the state stored in the run folder."""
        self.progress = load_state(self.folder, self.stepper, rank=self.group.rank)
        self._saved_step = self.progress.step
        self.loader.seek(self.progress.position)
        if not self.group.is_rank0:
            self.progress.snapshots.clear()
        log.info("resumed at step %d", self.progress.step)

    def train(self) -> None:
        """Train until finished, out of patience, or interrupted; then save the state.

        Unless interrupted, the last step is always validated.

        Raises:
            FloatingPointError: if the loss or the gradient is not finite; names the step.
            ModelFolderError: if the disk is full; the last saved state stays valid.
        """
        group, first_step = self.group, self.progress.step
        group.run_on_rank0(self._open_outputs)
        self._budget = Budget(self.recipe.run, self.progress)
        bar = progress_bar("training", initial=first_step, unit="step", disable=not group.is_rank0)
        try:
            reporting = reporting_out_of_memory(self.recipe.optimizer, group)
            with self.stepper.exchanging_gradients(), bar, logging_redirect_tqdm(), reporting:
                # 1. Validate the pretrained model, the baseline and the first model in `best/`.
                # Save first: a killed run with metrics or `best/` but no state is lost.
                self._save()
                if self._needs_initial_validation():
                    self._validate()
                    self._save()
                # 2. Take steps until the budget is used up, and save the state.
                self._loop(bar)
                self._save()
                if self.progress.step == first_step and not self.is_interrupted:
                    log.info(
                        "nothing left to do at step %d: raise run.max_steps, run.max_minutes or "
                        "run.patience to continue",
                        self.progress.step,
                    )
                # 3. Validate the last step. Unscheduled, so after the save: a resumed run must
                # not average its snapshot. A signal may reach one process only; all must stop.
                self.is_interrupted = any(group.gather(self.is_interrupted))
                if not (self.is_interrupted or group.run_on_rank0(self._is_validated)):
                    self._validate()
        except ConfigError:  # out of memory at the first step: free the name again
            if group.is_rank0 and self.progress.step == 0:
                remove_results(self.folder)
            raise
        finally:
            if self._report is not None:
                self._report.close()

    def _open_outputs(self) -> None:
        step = -1 if self._needs_initial_validation() else self.progress.step
        self._report = RunReport(self.folder, step=step)
        self._validator = Validator(self.recipe, self.folder, self.run_data, self._report)

    def _save(self) -> None:
        """Save the state, unless it is saved already."""
        if self._saved_step == self.progress.step:
            return
        generators = self.group.gather(random_states())
        self.group.run_on_rank0(
            lambda: save_state(self.folder, self.stepper, self.progress, generators=generators)
        )
        self._saved_step = self.progress.step

    def _needs_initial_validation(self) -> bool:
        run_config, progress = self.recipe.run, self.progress
        has_baseline = bool(run_config.pretrained) and run_config.pretrained_part == "model"
        return has_baseline and progress.step == 0 and progress.best_bleu < 0

    def _validate(self) -> None:
        """Validate on rank 0; the other processes are told what decides about early stopping."""
        progress = self.progress

        def validate() -> int:
            began = time.monotonic()
            assert self._validator is not None, "set by _open_outputs on rank 0"
            try:
                self._validator.validate(self.model, progress)
            except FloatingPointError as error:
                raise FloatingPointError(f"step {progress.step}: {error}; {REMEDY}") from None
            self._budget.count_time()
            progress.validation_s = time.monotonic() - began
            return progress.n_worse

        progress.n_worse = self.group.run_on_rank0(validate)
        self._saved_step = None  # the state has changed

    def _loop(self, bar: "tqdm[Any]") -> None:
        """Run optimizer steps until the budget is used up or a stop is requested."""
        progress, run_config, group = self.progress, self.recipe.run, self.group
        n_batches = self.recipe.optimizer.accumulate
        is_stopping, throughput = group.run_on_rank0(self._wants_stop), Throughput()
        batches = self.loader.take(n_batches)
        while not (is_stopping or self._is_done()):
            # 1. Update the weights by the next batches.
            share = self._budget.share_used(progress.step + 0.5)  # the middle of the step
            lr = rate_at(progress.step + 1, self.recipe.optimizer, share=share)
            result = self.stepper.start_step(
                batches.batches,
                lr=lr,
                wants_stop=self._wants_stop(),
                time_share=self._budget.next_time_share() if group.is_rank0 else 0.0,
            )
            # 2. Make the batches after them, while a GPU still works, and wait for its result.
            upcoming = self.loader.take(n_batches)
            stats = self.stepper.finish_step(result, step=progress.step + 1)
            self._advance(stats, batches.after)
            batches = upcoming
            # One process need not wait for the exchange.
            is_stopping = stats.wants_stop or (group.size == 1 and self._wants_stop())
            # 3. Report.
            throughput.add(stats.loss, stats.n_tokens)
            bar.total = max(
                progress.step, round(progress.step / self._budget.share_used(progress.step))
            )
            bar.update()
            if progress.step % run_config.log_every == 0:
                self._log({**throughput.to_dict(), "lr": lr, "grad_norm": stats.grad_norm}, bar)
                throughput = Throughput()
            # 4. Validate and save at their intervals.
            if progress.step % run_config.eval_every == 0:
                before = time.monotonic()
                self._validate()
                self._save()
                is_stopping = group.run_on_rank0(self._wants_stop) or is_stopping
                throughput.pause(time.monotonic() - before)
            elif progress.step % run_config.save_every == 0:
                self._save()

    def _wants_stop(self) -> bool:
        return self.is_interrupted or (self.group.is_rank0 and self._budget.time_share_used() >= 1)

    def _is_done(self) -> bool:
        run_config, progress = self.recipe.run, self.progress
        return progress.step >= run_config.max_steps or progress.n_worse >= run_config.patience

    def _advance(self, stats: StepStats, position: Position) -> None:
        progress = self.progress
        progress.step += 1
        progress.epoch, progress.batch = position
        self._budget.count_time()
        self._budget.time_share = stats.time_share

    def _log(self, values: dict[str, float], bar: "tqdm[Any]") -> None:
        """Log one line, and add the same values to the report."""
        if self._report is None:
            return
        progress = self.progress
        self._report.add(progress.step, "train", {**values, "epoch": progress.epoch})
        shown = f"loss {values['loss']:.3f}, {values['tokens_per_s']:,.0f} tokens/s"
        bar.set_postfix_str(shown, refresh=False)
        log.info(
            "step %d  loss %.4f  lr %.2e  grad norm %.2f  %.0f tokens/s  %s, %s left",
            progress.step,
            values["loss"],
            values["lr"],
            values["grad_norm"],
            values["tokens_per_s"],
            tqdm.format_interval(progress.seconds),
            tqdm.format_interval(self._budget.seconds_left()),
        )

    def _is_validated(self) -> bool:
        """Return whether the weights were validated, in this session or before."""
        record = read_validation(self.folder / "last")
        return record is not None and record["step"] == self.progress.step


def seed_everything(seed: int) -> None:
    """Seed Python's and torch's generators on all devices."""
    random.seed(seed)
    torch.manual_seed(seed)
