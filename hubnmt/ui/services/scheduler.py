"""Admission of model work: one task runs at a time, in fair shares per client, short tasks first.

Waiting tasks are ordered by the seconds their address and session used lately, plus the seconds the
task itself is estimated to need. Source: least attained service, Nuyens and Wierman (2008), "The
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
"""How long a task that shows its progress runs before a shorter one may go first."""

SHORT_S = 0.3
"""Tasks estimated to be shorter than this may interrupt a longer one. Only these, so that memory
holds one long search at a time."""

MAX_WAITING = 64
"""Tasks that wait. One more, and the client with most of them loses its longest."""

MAX_WAIT_S = 60.0
"""How long a task waits before its client is told that the server is busy."""

LISTEN_WITHIN_S = 10.0
"""How long a task waits for its client to open the connection for the answer."""

MAX_OVERRUN = 3.0
"""How far a task may exceed the longest time admitted before it is stopped: estimates are rough."""

HALF_LIFE_S = 15.0
"""After which half of the seconds that a client used are forgotten."""

_POLL_S = 0.25
"""How often a waiting task looks whether its client is still there."""

_MAX_CLIENTS = 10_000
"""Clients whose use is remembered."""

Value = TypeVar("Value")
Result = TypeVar("Result")


class BusyError(HubNMTError):
    """Too many tasks wait."""

    def __init__(self) -> None:
        """Say so, the same way wherever it happens."""
        super().__init__("too many people are translating right now; try again in a moment")


class OverrunError(HubNMTError):
    """A task took far longer than any that is admitted."""

    def __init__(self) -> None:
        """Name the remedy."""
        super().__init__(
            "this takes too long for a page that others wait for, and was stopped; translate it "
            "in parts, or with a smaller beam"
        )


class AbandonedError(Exception):
    """Nobody waits for the answer any more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Client:
    """Who asks, and whether an answer can reach them."""

    address: str
    session: str
    is_listening: Callable[[], bool]
    """Whether the connection for the answer is open."""
    has_left: Callable[[], bool]
    """Whether it was closed, or the task cancelled."""


@dataclasses.dataclass(eq=False, slots=True)
class _Task:
    client: Client
    cost_s: float
    asked_at: float
    used_s: float = 0.0
    cpu_s: float = 0.0
    """Of the thread that searches: other processes do not count."""
    is_dropped: bool = False
    is_chosen: threading.Event = dataclasses.field(default_factory=threading.Event)

    @property
    def keys(self) -> tuple[str, str]:
        """What its time is counted under."""
        return self.client.address, f"{self.client.address} {self.client.session}"

    @property
    def remaining_s(self) -> float:
        return max(0.0, self.cost_s - self.used_s)


class Scheduler:
    """The waiting tasks of one server, and the one that runs."""

    def __init__(
        self, max_task_s: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Begin with nothing to do.

        Args:
            max_task_s: the longest task that is admitted, as estimated.
            clock: seconds, for tests.
        """
        self._max_task_s = max_task_s
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: list[_Task] = []
        self._running: _Task | None = None
        self._used: dict[str, tuple[float, float]] = {}

    def wake(self) -> None:
        """Look at the waiting tasks again: a client has come or gone."""
        with self._lock:
            self._dispatch()

    def is_full_for(self, address: str) -> bool:
        """Return whether a new task of this address would be refused, were it not a short one."""
        with self._lock:
            counts = Counter(task.client.address for task in self._waiting)
        return counts.total() >= MAX_WAITING and counts[address] >= max(counts.values())

    def submit(self, client: Client, cost_s: float) -> _Task:
        """Make a task that `turn` admits."""
        return _Task(client, cost_s, self._clock())

    @contextlib.contextmanager
    def turn(self, task: _Task) -> Iterator[None]:
        """Wait until a task may run, and let the next one run afterwards.

        Raises:
            BusyError: if too many wait, or it waited too long.
            AbandonedError: if nobody waits for the answer.
            OverrunError: if its turns so far took far longer than any task admitted.
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
        """Take a task away that nobody waits for, or that waited too long."""
        is_late = self._clock() - task.asked_at > LISTEN_WITHIN_S
        is_unheard = is_late and not task.client.is_listening()
        if task.client.has_left() or is_unheard:
            self._waiting.remove(task)
            raise AbandonedError
        if task.is_dropped or self._clock() > until:
            self._waiting.remove(task)
            raise BusyError

    def _dispatch(self) -> None:
        """Let the next task run, if none does."""
        if self._running is None and (task := self._next()):
            self._waiting.remove(task)
            self._running = task
            task.is_chosen.set()

    def _next(self) -> _Task | None:
        """Choose among those whose client listens."""
        ready = [each for each in self._waiting if not each.is_dropped and _is_answerable(each)]
        if any(each.used_s for each in ready):
            ready = [each for each in ready if each.used_s or each.cost_s <= SHORT_S]
        return min(ready, key=self._urgency, default=None)

    def _urgency(self, task: _Task) -> float:
        return sum(map(self._recent_use, task.keys)) + task.remaining_s

    def _drop_excess(self) -> None:
        """Drop the longest task of the client that has most of them."""
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


def _is_answerable(task: _Task) -> bool:
    return task.client.is_listening() and not task.client.has_left()


# --- the task of this thread ---------------------------------------------------------------------

_CURRENT: contextvars.ContextVar[tuple[Scheduler, Client] | None] = contextvars.ContextVar(
    "current", default=None
)
"""Whose request this thread works on; none without a server, and while a turn is held."""


def assign(scheduler: Scheduler, client: Client) -> None:
    """Let what this context calls run as tasks of a client."""
    _CURRENT.set((scheduler, client))


@contextlib.contextmanager
def model_turn(cost_s: float) -> Iterator[None]:
    """Run the block when it is its turn; at once without a server, or within another turn.

    Args:
        cost_s: seconds it is estimated to need.

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
    steps: Generator[Value, None, Result], cost_s: float
) -> Generator[Value, None, Result]:
    """Run a generator as `model_turn` does, letting shorter tasks go first between its steps.

    Between two turns the latest value is passed on; those in between are left out.

    Raises:
        HubNMTError, AbandonedError: see `Scheduler.turn`.
    """
    current = _CURRENT.get()
    with contextlib.closing(steps):
        if current is None:
            return (yield from steps)
        scheduler, client = current
        task = scheduler.submit(client, cost_s)
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


class Quota:
    """A number of places, some of which one address may have."""

    def __init__(self, n_places: int, n_per_address: int) -> None:
        """Begin with all of them free."""
        self._n_places = n_places
        self._n_per_address = n_per_address
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place during the block; without a server there is no limit.

        Raises:
            BusyError: if there is none.
        """
        current = _CURRENT.get()
        if current is None:
            yield
            return
        address = current[1].address
        with self._lock:
            if self._taken.total() >= self._n_places or self._taken[address] >= self._n_per_address:
                raise BusyError
            self._taken[address] += 1
        try:
            yield
        finally:
            with self._lock:
                self._taken[address] -= 1


def run_in_turns(steps: Generator[Value, None, Result], cost_s: float) -> Result:
    """Run a generator to its end as `in_turns` does, and return its result."""
    turns = in_turns(steps, cost_s)
    while True:
        try:
            next(turns)
        except StopIteration as end:
            result: Result = end.value
            return result
