"""The frame of a command: its parser, its log, and a user's mistakes in one line."""

import argparse
import logging
import sys
from collections.abc import Callable

from hubnmt.errors import HubNMTError

log = logging.getLogger("training")


def make_parser(module: str, description: str | None) -> argparse.ArgumentParser:
    """Return a parser for `python -m training.MODULE` that shows the module's docstring."""
    return argparse.ArgumentParser(
        prog=f"python -m training.{module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run_command(work: Callable[[], object], *, interrupted: str = "nothing was written") -> int:
    """Run the work of a command and log its errors.

    Returns:
        exit status: 0 success, 2 invalid request, 130 interrupted.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        work()
    except (HubNMTError, OSError) as error:
        log.error("error: %s", " ".join(str(error).split()))
        return 2
    except KeyboardInterrupt:
        log.error("interrupted; %s", interrupted)
        return 130
    return 0
