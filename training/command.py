"""The frame of a command: parser, log, progress bars, and a user's mistakes in one line."""

import argparse
import io
import logging
import signal
import sys
from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from hubnmt.errors import HubNMTError

log = logging.getLogger("training")


def make_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser for `python -m training.MODULE` that shows the module's docstring."""
    return argparse.ArgumentParser(
        prog=f"python -m training.{module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_overrides(parser: argparse.ArgumentParser) -> None:
    """Add the option `--set`, which may be given several times."""
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="override a setting of the recipe, such as data.test",
    )


def run_command(
    work: Callable[[], object],
    *,
    interrupted: str = "nothing was written",
    report: Callable[[str], object] = log.error,
) -> int:
    """Run the work of a command, and report its errors in one line.

    Returns:
        exit status: 0 success, 1 loss or gradient not finite, 2 invalid request, 130 interrupted.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    # Terminated as by Ctrl-C, a command removes its temporary files.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        work()
    except (HubNMTError, OSError) as error:
        report(f"error: {' '.join(str(error).split())}")
        return 2
    except FloatingPointError as error:
        report(f"error: training stopped: {error}")
        return 1
    except KeyboardInterrupt:
        report(f"interrupted; {interrupted}")
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


INTERVAL_S = 30.0
"""Seconds between two lines without a terminal."""


def progress_bar(phase: str, **options: Any) -> "tqdm[Any]":
    """Log the name of a phase, such as `encoding`, and return its bar; options as for `tqdm`."""
    log.info("%s", phase)
    kind: type[tqdm[Any]] = tqdm
    if not sys.stderr.isatty():
        kind = _LoggedBar
        options |= {"mininterval": INTERVAL_S, "delay": INTERVAL_S, "miniters": 1}
        options["file"] = io.StringIO()  # for the control characters that tqdm writes at the end
    return kind(desc=phase, **options)


class _LoggedBar(tqdm):  # type: ignore[type-arg]  # generic in its stubs only
    """A bar that logs its state instead of drawing it."""

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Log the state; the empty message of `close` is ignored."""
        if msg is None:
            log.info("%s", self)
