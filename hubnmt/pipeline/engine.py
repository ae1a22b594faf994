"""What the pipeline needs of a decoding engine."""

from collections.abc import Sequence
from typing import Protocol

from hubnmt.config import DEFAULT_BATCH_TOKENS, DecodingConfig
from hubnmt.decoding import ForcedPrefix, Search
from hubnmt.inference.scoring import Pairs


class Engine(Protocol):
    """Decoding engine: rows of source ids to hypotheses. `TorchEngine` is the reference."""

    def search(
        self,
        rows: Sequence[Sequence[int]],
        decoding: DecodingConfig,
        *,
        prefix: ForcedPrefix | None = None,
        require_spans: bool = True,
        max_batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> Search:
        """Decode rows of source ids without special tokens.

        Args:
            rows: source ids.
            decoding: strategy and options.
            prefix: forced prefix of every target.
            require_spans: whether hypotheses must have the placeholders of their source.
            max_batch_tokens: source tokens times hypotheses per batch.

        Returns:
            a search that returns up to `n_best` hypotheses per row, best first, with distinct
            texts. Each has the placeholders of protected spans of its source, as far as the length
            limit allows.
        """
        ...

    def score(self, pairs: Pairs) -> list[tuple[float, ...]]:
        """Map (source ids, target ids) to log-probabilities of each target token and eos, nats."""
        ...
