"""A search seen from outside while it runs.

Takes a search that calls `watch` at each step, gives its steps as an iterator and its result at the
end. Must not know what is searched. The search runs in a thread; whoever stops looking ends it at
its next step, so an abandoned translation costs nothing more.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

from torch import Tensor

Result = TypeVar("Result")
_END = object()


class _AbandonedError(Exception):
    """Raised inside the search when nobody looks any more."""


class Watched(Generic[Result]):
    """Context manager: iterate the steps inside the block, then read `result`."""

    def __init__(self, search: Callable[[Callable[[Tensor], None]], Result]) -> None:
        """Prepare; `search` gets the `watch` to call with each step's tokens."""
        self._search = search
        self._steps: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._error: BaseException | None = None
        self._result: list[Result] = []

    @property
    def result(self) -> Result:
        """What the search returned; the steps must have been iterated to the end."""
        return self._result[0]

    def __enter__(self) -> Self:
        """Start the search."""
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the search at its next step if it still runs."""
        self._abandoned.set()
        self._thread.join()

    def __iter__(self) -> Iterator[Tensor]:
        """Yield the tokens of each step, (B, W, t); raise what the search raised."""
        while isinstance(step := self._steps.get(), Tensor):
            yield step
        if self._error is not None:
            raise self._error

    def _watch(self, tokens: Tensor) -> None:
        if self._abandoned.is_set():
            raise _AbandonedError
        self._steps.put(tokens)

    def _run(self) -> None:
        try:
            self._result.append(self._search(self._watch))
        except _AbandonedError:
            pass
        except BaseException as error:  # handed to the thread that looks on
            self._error = error
        finally:
            self._steps.put(_END)
