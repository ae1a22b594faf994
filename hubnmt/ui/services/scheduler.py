"""Scheduler for model tasks: one at a time, with fair shares per client and short tasks first.

Waiting tasks are ordered by the recent model time of their address and session plus the estimated
remaining time of the task. Source: least attained service, Nuyens and Wierman (2008), "The
foreground-background queue", with the estimate added.
"""

import contextlib
import contextvars
import dataclasses
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import TypeVar

from hubnmt.errors import HubNMTError

SLICE_S = 0.05
"""Time slice of a streaming task, after which a shorter task may preempt it."""

SHORT_S = 0.3
"""Tasks estimated to be shorter than this may preempt a longer one. Longer tasks may not, so that
only one long search is in memory at a time."""

MAX_WAITING = 64
"""Maximum queue length; beyond it, the longest task of the client with most tasks is dropped."""

MAX_WAIT_S = 60.0
"""Maximum waiting time before a task is refused with `BusyError`."""

LISTEN_WITHIN_S = 10.0
"""How long a task waits for its client to open the response stream."""

MAX_OVERRUN = 3.0
"""Factor by which a task may exceed the maximum admitted time before it is stopped."""

HALF_LIFE_S = 15.0
"""Half-life of a client's recorded usage."""

_POLL_S = 0.25
"""Interval at which a waiting task checks whether its client is still connected."""

_MAX_CLIENTS = 10_000
"""Maximum number of clients with recorded usage."""

Value = TypeVar("Value")
Result = TypeVar("Result")


class BusyError(HubNMTError):
    """The queue is full."""

    def __init__(self) -> None:
        """Set the fixed message."""
        super().__init__("the server is busy; try again in a moment")


class OverrunError(HubNMTError):
    """A task exceeded the time limit."""

    def __init__(self) -> None:
        """Set the fixed message."""
        super().__init__(
            "stopped because it exceeded the time limit of this page; split the text or reduce "
            "beam_size"
        )


class AbandonedError(Exception):
    """The client disconnected or cancelled the task."""


@dataclasses.dataclass(frozen=True, slots=True)
class Client:
    """The client of a request, and whether it can receive a response."""

    address: str
    session: str
    is_listening: Callable[[], bool]
    """Whether the response stream is open."""
    has_left: Callable[[], bool]
    """Whether the stream was closed or the task cancelled."""


@dataclasses.dataclass(eq=False, slots=True)
class _Task:
    client: Client
    cost_s: float
    asked_at: float
    used_s: float = 0.0
    cpu_s: float = 0.0
    """CPU time of the decoding thread, which excludes other processes."""
    is_begun: Callable[[], bool] = lambda: False
    """Whether another task's turn has begun its search, see `shared_search`; it then goes first."""
    is_dropped: bool = False
    is_chosen: threading.Event = dataclasses.field(default_factory=threading.Event)

    @property
    def keys(self) -> tuple[str, str]:
        """Keys under which usage is recorded: the address, and the address with the session."""
        return self.client.address, f"{self.client.address} {self.client.session}"

    @property
    def remaining_s(self) -> float:
        return max(0.0, self.cost_s - self.used_s)


class Scheduler:
    """Queue of model tasks of one server."""

    def __init__(
        self, max_task_s: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Create an empty queue.

        Args:
            max_task_s: maximum estimated duration of an admitted task.
            clock: time source in seconds; replaced in tests.
        """
        self._max_task_s = max_task_s
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[_Task] = []
        self._running: _Task | None = None
        self._used: dict[str, tuple[float, float]] = {}

    def wake(self) -> None:
        """Dispatch again after a client connected or disconnected."""
        with self._lock:
            self._dispatch()

    @property
    def n_waiting(self) -> int:
        """Number of waiting tasks."""
        with self._lock:
            return len(self._waiting)

    def is_full_for(self, address: str) -> bool:
        """Return whether the queue is full and this address has the most tasks in it."""
        with self._lock:
            counts = Counter(task.client.address for task in self._waiting)
        return counts.total() >= MAX_WAITING and counts[address] >= max(counts.values())

    def submit(
        self, client: Client, cost_s: float, is_begun: Callable[[], bool] = lambda: False
    ) -> _Task:
        """Create a task for `turn`."""
        return _Task(client, cost_s, self._clock(), is_begun=is_begun)

    @contextlib.contextmanager
    def turn(self, task: _Task) -> Iterator[None]:
        """Wait for the task's turn, and dispatch the next task on exit.

        Raises:
            BusyError: if the queue is full, or the task waited too long.
            AbandonedError: if the client is gone.
            OverrunError: if its turns so far exceeded the time limit.
        """
        self._wait(task)
        started, cpu_started = self._clock(), time.thread_time()
        try:
            yield
        finally:
            task.cpu_s += time.thread_time() - cpu_started
            with self._lock:
                self._charge(task, self._clock() - started)
                self._running = None
                self._dispatch()

    def _wait(self, task: _Task) -> None:
        if task.cpu_s > MAX_OVERRUN * self._max_task_s:
            raise OverrunError
        until = self._clock() + MAX_WAIT_S
        with self._lock:
            self._waiting.append(task)
            self._drop_excess()
            self._dispatch()
        while not task.is_chosen.wait(_POLL_S):
            with self._lock:
                if not task.is_chosen.is_set():
                    self._check(task, until)
        task.is_chosen.clear()

    def _check(self, task: _Task, until: float) -> None:
        """Remove a task whose client is gone, that was dropped, or that waited too long."""
        is_late = self._clock() - task.asked_at > LISTEN_WITHIN_S
        is_abandoned = is_late and not task.client.is_listening()
        if task.client.has_left() or is_abandoned:
            self._waiting.remove(task)
            raise AbandonedError
        if task.is_dropped or self._clock() > until:
            self._waiting.remove(task)
            raise BusyError

    def _dispatch(self) -> None:
        """Start the next task if none is running."""
        if self._running is None and (task := self._next()):
            self._waiting.remove(task)
            self._running = task
            task.is_chosen.set()

    def _next(self) -> _Task | None:
        """Select the next task among those whose client is connected."""
        ready = [each for each in self._waiting if not each.is_dropped and _is_connected(each)]
        if begun := [each for each in ready if each.is_begun()]:
            ready = begun
        elif any(each.used_s for each in ready):
            ready = [each for each in ready if each.used_s or each.cost_s <= SHORT_S]
        return min(ready, key=self._priority, default=None)

    def _priority(self, task: _Task) -> float:
        return sum(map(self._recent_use, task.keys)) + task.remaining_s

    def _drop_excess(self) -> None:
        """Drop the longest task of the client with most tasks."""
        kept = [each for each in self._waiting if not each.is_dropped]
        if len(kept) <= MAX_WAITING:
            return
        n_tasks = Counter(key for each in kept for key in each.keys)
        new = [each for each in kept if not each.used_s]
        excess = max(new, key=lambda each: (*(n_tasks[key] for key in each.keys), each.cost_s))
        excess.is_dropped = True

    def _recent_use(self, key: str) -> float:
        seconds, at = self._used.get(key, (0.0, 0.0))
        return float(seconds * 0.5 ** ((self._clock() - at) / HALF_LIFE_S))

    def _charge(self, task: _Task, seconds: float) -> None:
        task.used_s += seconds
        now = self._clock()
        for key in task.keys:
            self._used[key] = self._recent_use(key) + seconds, now
        if len(self._used) > _MAX_CLIENTS:
            latest = sorted(self._used.items(), key=lambda item: item[1][1])
            self._used = dict(latest[_MAX_CLIENTS // 2 :])


def _is_connected(task: _Task) -> bool:
    return task.client.is_listening() and not task.client.has_left()


# --- task context --------------------------------------------------------------------------------

_CURRENT: contextvars.ContextVar[tuple[Scheduler, Client] | None] = contextvars.ContextVar(
    "current", default=None
)
"""Scheduler and client of the current request; None without a server or while a turn is held."""


def assign(scheduler: Scheduler, client: Client) -> None:
    """Attribute model tasks in this context to a client."""
    _CURRENT.set((scheduler, client))


@contextlib.contextmanager
def model_turn(cost_s: float) -> Iterator[None]:
    """Run the block in a scheduler turn; immediately without a server or within another turn.

    Args:
        cost_s: estimated duration in seconds.

    Raises:
        HubNMTError, AbandonedError: see `Scheduler.turn`.
    """
    current = _CURRENT.get()
    if current is None:
        yield
        return
    scheduler, client = current
    token = _CURRENT.set(None)
    try:
        with scheduler.turn(scheduler.submit(client, cost_s)):
            yield
    finally:
        _CURRENT.reset(token)


def in_turns(
    steps: Generator[Value, None, Result],
    cost_s: float,
    is_begun: Callable[[], bool] = lambda: False,
) -> Generator[Value, None, Result]:
    """Run a generator in scheduler turns that shorter tasks may preempt between steps.

    Only the last value of each turn is yielded.

    Args:
        steps: the generator, which is closed at the end.
        cost_s: estimated duration in seconds.
        is_begun: see `_Task`.

    Raises:
        HubNMTError, AbandonedError: see `Scheduler.turn`.
    """
    current = _CURRENT.get()
    with contextlib.closing(steps):
        if current is None:
            return (yield from steps)
        scheduler, client = current
        task = scheduler.submit(client, cost_s, is_begun)
        while True:
            with scheduler.turn(task):
                until = time.monotonic() + SLICE_S
                try:
                    value = next(steps)
                    while time.monotonic() < until:
                        value = next(steps)
                except StopIteration as end:
                    result: Result = end.value
                    return result
            yield value


def n_waiting() -> int:
    """Return the number of waiting tasks of all clients; 0 without a server."""
    current = _CURRENT.get()
    return 0 if current is None else current[0].n_waiting


class Quota:
    """Limit on concurrent jobs, in total and per address."""

    def __init__(self, n_places: int, n_per_address: int) -> None:
        """Set the limits."""
        self._n_places = n_places
        self._n_per_address = n_per_address
        self._holders: list[Client] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Hold one slot during the block; without a server there is no limit.

        A job whose client has left does not count: Gradio closes a cancelled generator only after
        the step that it is in, which may wait for other tasks.

        Raises:
            BusyError: if no slot is free.
        """
        current = _CURRENT.get()
        if current is None:
            yield
            return
        client = current[1]
        with self._lock:
            active = [each for each in self._holders if not each.has_left()]
            n_own = sum(each.address == client.address for each in active)
            if len(active) >= self._n_places or n_own >= self._n_per_address:
                raise BusyError
            self._holders.append(client)
        try:
            yield
        finally:
            with self._lock:
                self._holders.remove(client)
