"""From a run to the Hub: its folder while it trains, and when it is done.

Takes model folders, gives them to `hubnmt.hub`. Must not know how the Hub is reached. A Hub that is
out of reach must not end a run, so what fails on the way is told and tried again with the next
validation; only the last push may fail aloud.
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
        """Remember where to; None means nowhere.

        Args:
            repo: `user/name`.
            checkpoints: push `last/` at every validation, too.

        Raises:
            ConfigError: if the name is none.
        """
        if checkpoints and repo is None:
            raise ConfigError("--hub-checkpoints needs --push USER/NAME, the place to put them")
        if repo is not None and ("@" in repo or parse_reference(repo) is None):
            raise ConfigError(f"--push {repo}: must be USER/NAME")
        self.repo = repo
        self._checkpoints = checkpoints

    def options(self) -> list[str]:
        """Return the words of the command line that ask for this."""
        push = [] if self.repo is None else ["--push", self.repo]
        return [*push, "--hub-checkpoints"] if self._checkpoints else push

    def prepare(self) -> None:
        """Find out whether the Hub will take the model, before the training that makes it.

        Raises:
            HubNMTError: if it refuses or cannot be reached.
        """
        if self.repo is not None:
            prepare_repo(self.repo, private=True)

    def push_checkpoint(self, folder: Path, *, step: int) -> None:
        """Push `last/` if that is wanted; a failure is only told."""
        if self.repo is None or not self._checkpoints:
            return
        try:
            push(folder, self.repo, private=True, message=f"Step {step:,}, in training")
        except HubNMTError as error:
            log.warning("step %d is not on the Hub: %s", step, error)

    def push_result(self, folder: Path, *, step: int, bleu: float) -> None:
        """Push the best model, if that is wanted.

        Raises:
            HubNMTError: if the Hub refuses; with the command that tries again.
        """
        if self.repo is None:
            return
        message = f"Best of training: validation BLEU {bleu:.2f} at step {step:,}"
        try:
            push(folder, self.repo, private=True, message=message)
        except HubNMTError as error:
            retry = shlex.join(["hubnmt", "push", str(folder), self.repo])
            raise type(error)(f"{error}; the model is whole, try again: {retry}") from error
        log.info("pushed %s to %s", folder, self.repo)
