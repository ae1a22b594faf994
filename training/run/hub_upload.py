"""Upload a run's model folders to the Hub, during and after training.

An unreachable Hub must not end a run: a failed upload of a checkpoint is logged and retried with
the next validation. Only a failure of the final upload raises an error.
"""

import logging
import shlex
from pathlib import Path

from hubnmt.errors import ConfigError, HubNMTError
from hubnmt.hub.push import prepare_repo, push
from hubnmt.hub.reference import parse_reference

log = logging.getLogger("training")


class Publisher:
    """Pushes the model folders of one run to one repository, which is made private if it is new."""

    def __init__(self, repo: str | None, *, checkpoints: bool = False) -> None:
        """Set the target repository, `USER/NAME`; None disables uploads."""
        if checkpoints and repo is None:
            raise ConfigError("--hub-checkpoints requires --push USER/NAME")
        if repo is not None and ("@" in repo or parse_reference(repo) is None):
            raise ConfigError(f"--push {repo}: must be USER/NAME")
        self.repo = repo
        self._checkpoints = checkpoints

    def options(self) -> list[str]:
        """Return the command-line options that select this target."""
        push = [] if self.repo is None else ["--push", self.repo]
        return [*push, "--hub-checkpoints"] if self._checkpoints else push

    def prepare(self) -> None:
        """Check before training that the repository can be written."""
        if self.repo is not None:
            prepare_repo(self.repo, private=True)

    def push_checkpoint(self, folder: Path, *, step: int) -> None:
        """Push `last/` if requested; a failure is only logged."""
        if not self._checkpoints:
            return
        try:
            self._push(folder, f"Step {step:,}, in training")
        except HubNMTError as error:
            log.warning("step %d was not pushed to the Hub: %s", step, error)

    def push_result(self, folder: Path, *, step: int, bleu: float) -> None:
        """Push the best model, if requested; the error of a failure has the command to retry."""
        if self.repo is None:
            return
        try:
            self._push(folder, f"Best of training: validation BLEU {bleu:.2f} at step {step:,}")
        except HubNMTError as error:
            retry = shlex.join(["hubnmt", "push", str(folder), self.repo])
            raise type(error)(
                f"{error}; the model was saved, retry the upload with: {retry}"
            ) from error
        log.info("pushed %s to %s", folder, self.repo)

    def _push(self, folder: Path, message: str) -> None:
        assert self.repo is not None, "checked by the callers"
        prepare_repo(self.repo, private=True)  # a new repository is private, not an old one
        push(folder, self.repo, message=message)
