"""How the small Hub misbehaves when a test asks for it.

Takes a description of a request, gives the fault that meets it, if any.
"""

import dataclasses
import re
import threading
from collections.abc import Callable


@dataclasses.dataclass
class Fault:
    """One kind of trouble, for the requests that match."""

    path: str
    """Regular expression searched for in `METHOD /path`."""
    times: int | None = 1
    """How many requests it meets; None: for ever."""
    status: int = 0
    """Answer with this status and nothing else."""
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    """Sent with that status."""
    cut_after: int | None = None
    """Close the connection after this many bytes of the body, sent or received."""
    pause_s: float = 0.0
    """Wait this long before each small piece of the body."""
    lose_answer: bool = False
    """Do what was asked, then close the connection without a word."""
    before: Callable[[], None] | None = None
    """Called before the request is worked on."""


class Faults:
    """The faults in force."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self._faults.append(fault)

    def clear(self) -> None:
        self._faults.clear()

    def meet(self, request: str) -> Fault | None:
        """Return the first fault for a request, and count it."""
        with self._lock:
            for fault in self._faults:
                if fault.times != 0 and re.search(fault.path, request):
                    if fault.times is not None:
                        fault.times -= 1
                    return fault
        return None
