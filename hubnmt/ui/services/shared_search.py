"""Searches of different requests that share a batch.

A request registers its sentences before it waits for its turn. The request whose turn it is
searches all registered sentences of the same model with the same options; the others find their
results. A batch is decoded as it was filled: sentences that come later wait for the next one.
"""

import dataclasses
import itertools
import threading
import time
from collections import defaultdict
from collections.abc import Generator, Sequence

from hubnmt.config import DEFAULT_BATCH_TOKENS, DecodingConfig
from hubnmt.decoding import ForcedPrefix, Hypothesis, Search
from hubnmt.inference.scoring import Pairs
from hubnmt.pipeline.pipeline import Engine

MAX_ROWS = 8
"""Maximum sentences of a request that are shared at once; more are a batch of their own."""

MAX_ROW_TOKENS = 64
"""Maximum length of a shared sentence: all wait for the longest."""

MAX_BATCH_ROWS = 64
"""Maximum sentences of a shared batch."""

MAX_FIRST_S = 0.5
"""How long a batch goes before requests that wait for another."""

Key = tuple[Engine, DecodingConfig]


@dataclasses.dataclass(eq=False, slots=True)
class _Request:
    """Sentences that are searched together."""

    rows: Sequence[Sequence[int]]
    batch: "_Batch | None" = None
    """The batch that contains them; None before it begins."""
    found: list[list[Hypothesis]] | None = None
    """Their hypotheses; None before they are found."""


class _Batch:
    """The sentences of several requests in one search."""

    def __init__(self, key: Key, requests: Sequence[_Request]) -> None:
        self._search = self._run(key)
        self._requests = requests
        self._error: Exception | None = None
        self._lock = threading.Lock()
        self.seconds = 0.0
        """Time of its steps so far."""

    @property
    def is_shared(self) -> bool:
        """Whether the tokens of its steps may be another request's."""
        return len(self._requests) > 1

    def _run(self, key: Key) -> Generator[list[int], None, None]:
        """Search the sentences of all requests, and give each its own."""
        engine, decoding = key
        rows = [row for each in self._requests for row in each.rows]
        found = iter((yield from engine.search(rows, decoding)))
        for each in self._requests:
            each.found = list(itertools.islice(found, len(each.rows)))

    def step(self) -> list[int]:
        """Advance the search by one step, for all requests.

        Raises:
            Exception: that of the search, to each request.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            started = time.perf_counter()
            try:
                return next(self._search, [])
            except Exception as error:
                self._error = error
                raise
            finally:
                self.seconds += time.perf_counter() - started


class SharedSearches:
    """Requests that wait for a batch, by model and options."""

    def __init__(self) -> None:
        """Create an empty queue."""
        self._lock = threading.Lock()
        self._waiting: defaultdict[Key, list[_Request]] = defaultdict(list)

    def register(self, key: Key, request: _Request) -> None:
        """Add a request to the next batch of its key."""
        with self._lock:
            self._waiting[key].append(request)

    def withdraw(self, key: Key, request: _Request) -> None:
        """Remove a request if its batch has not begun."""
        with self._lock:
            self._remove(key, [request])

    def begin(self, key: Key, request: _Request) -> _Batch:
        """Begin a batch of a request and others that wait; return the one that it is in."""
        with self._lock:
            if request.batch is not None:
                return request.batch
            others = [each for each in self._waiting[key] if each is not request]
            n_rows = itertools.accumulate(len(each.rows) for each in (request, *others))
            n_requests = sum(n <= MAX_BATCH_ROWS for n in n_rows)
            requests = [request, *others][: max(n_requests, 1)]
            batch = _Batch(key, requests)
            for each in requests:
                each.batch = batch
            self._remove(key, requests)
            return batch

    def _remove(self, key: Key, requests: Sequence[_Request]) -> None:
        kept = [each for each in self._waiting[key] if each not in requests]
        if kept:
            self._waiting[key] = kept
        else:
            del self._waiting[key]


class SharedEngine:
    """The engine of one request, whose searches share batches with other requests."""

    def __init__(self, engine: Engine, searches: SharedSearches) -> None:
        """Set the engine that decodes and the queue of requests."""
        self._engine = engine
        self._searches = searches
        self._request: _Request | None = None

    def is_begun(self) -> bool:
        """Return whether a shared batch with the sentences has ended, or has begun lately."""
        if self._request is None or self._request.batch is None:
            return False
        batch = self._request.batch
        is_done = self._request.found is not None
        return batch.is_shared and (is_done or batch.seconds < MAX_FIRST_S)

    def search(
        self,
        rows: Sequence[Sequence[int]],
        decoding: DecodingConfig,
        *,
        prefix: ForcedPrefix | None = None,
        max_batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> Search:
        """Search as `Engine.search`; with a prefix or for longer texts not in a shared batch.

        The first step only registers the sentences. A shared batch yields no tokens.
        """
        is_long = len(rows) > MAX_ROWS or any(len(row) > MAX_ROW_TOKENS for row in rows)
        if prefix is not None or is_long:
            return self._engine.search(
                rows, decoding, prefix=prefix, max_batch_tokens=max_batch_tokens
            )
        return self._share(rows, decoding)

    def score(self, pairs: Pairs) -> list[tuple[float, ...]]:
        """Score as `Engine.score`."""
        return self._engine.score(pairs)

    def _share(self, rows: Sequence[Sequence[int]], decoding: DecodingConfig) -> Search:
        key, request = (self._engine, decoding), _Request(rows)
        self._request = request
        self._searches.register(key, request)
        try:
            yield []
            while request.found is None:
                batch = self._searches.begin(key, request)
                ids = batch.step()
                if request.found is None:
                    yield [] if batch.is_shared else ids
        finally:
            self._searches.withdraw(key, request)
        return request.found
