"""What a translation may say next: repetition control and forced beginnings.

Takes decoding options and the bytes behind the pieces, gives `Constraint` functions for any search.
Must not know the model. Constraints see tokens so far and next-token log-probabilities, nothing
else, so they hold for every strategy alike.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hubnmt.decoding.scoring import block_repeated_ngrams, penalize_repetition
from hubnmt.decoding.types import Constraint


def combine(constraints: Sequence[Constraint]) -> Constraint | None:
    """Apply one after the other; None if there is nothing to apply."""
    if not constraints:
        return None

    def apply_all(log_probs: Tensor, tokens: Tensor) -> Tensor:
        for constraint in constraints:
            log_probs = constraint(log_probs, tokens)
        return log_probs

    return apply_all


def repetition_control(
    *,
    no_repeat_ngram_size: int,
    repetition_penalty: float,
    prefix: "ForcedPrefix | None" = None,
) -> list[Constraint]:
    """Make the constraints that these two options ask for.

    Args:
        no_repeat_ngram_size: 0 means no limit.
        repetition_penalty: 1 means none.
        prefix: tokens that say it are not controlled; it may repeat itself as it likes.
    """

    def control(log_probs: Tensor, tokens: Tensor) -> Tensor:
        controlled = log_probs
        if repetition_penalty != 1:
            controlled = penalize_repetition(controlled, tokens, repetition_penalty)
        if no_repeat_ngram_size:
            controlled = block_repeated_ngrams(controlled, tokens, no_repeat_ngram_size)
        if prefix is None or tokens.shape[2] >= prefix.max_tokens:
            return controlled
        is_said = prefix.is_said(tokens)  # (B, W)
        return torch.where(is_said[:, :, None], controlled, log_probs)

    return [control] if no_repeat_ngram_size or repetition_penalty != 1 else []


def limit_new_tokens(prefix: "ForcedPrefix", most: int) -> Constraint:
    """Make the constraint that lets a hypothesis say this many tokens beyond the prefix.

    Hypotheses of one sentence may cut the prefix into different numbers of pieces, so each is
    counted by itself; where everything is forbidden, a search ends.
    """

    def limit(log_probs: Tensor, tokens: Tensor) -> Tensor:
        is_full = prefix.count_new(tokens) >= most  # (B, W)
        return log_probs.masked_fill(is_full[:, :, None], -torch.inf)

    return limit


class ForcedPrefix:
    """The target begins with given bytes, wherever the pieces' borders fall.

    Whole words of the prefix are forced as the tokenizer cuts them. Its last word may go on ("do"
    may become "dog"), so there any piece is allowed that agrees with the bytes still owed, and the
    model chooses the cut.
    """

    def __init__(
        self,
        forced_ids: Sequence[int],
        open_bytes: bytes,
        *,
        vocab_size: int,
        piece_bytes: Callable[[int], bytes],
    ) -> None:
        """Prepare.

        Args:
            forced_ids: the pieces of the whole words.
            open_bytes: the last word, which may go on.
            vocab_size: V.
            piece_bytes: bytes behind an id; empty for special tokens.
        """
        self._forced_ids = list(forced_ids)
        self._open_bytes = open_bytes
        self._pieces = [piece_bytes(token_id) for token_id in range(vocab_size)]
        self._n_bytes = torch.tensor([len(piece) for piece in self._pieces])  # (V,)
        self._longest = max(map(len, self._pieces))
        self._ids: defaultdict[bytes, list[int]] = defaultdict(list)
        for token_id, piece in enumerate(self._pieces):
            self._ids[piece].append(token_id)
        self._masks: dict[bytes, Tensor] = {}

    @property
    def forced_ids(self) -> tuple[int, ...]:
        """The pieces of the whole words."""
        return tuple(self._forced_ids)

    @property
    def open_bytes(self) -> bytes:
        """The last word, which may go on."""
        return self._open_bytes

    @property
    def max_tokens(self) -> int:
        """Most tokens that the prefix can take."""
        return len(self._forced_ids) + len(self._open_bytes)

    def is_said(self, tokens: Tensor) -> Tensor:
        """Tell which hypotheses have said the whole prefix: (B, W, t) tokens to (B, W) bool."""
        if tokens.shape[2] < len(self._forced_ids):
            return torch.zeros(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        return self._count_bytes(tokens).sum(2) >= len(self._open_bytes)

    def count_new(self, tokens: Tensor) -> Tensor:
        """Count the tokens that say something beyond the prefix: (B, W, t) tokens to (B, W).

        A piece that ends the prefix and says more ("dogs" for "dog") is one of them.
        """
        return (self._count_bytes(tokens).cumsum(2) > len(self._open_bytes)).sum(2)

    def _count_bytes(self, tokens: Tensor) -> Tensor:
        """Measure the pieces behind the forced ones: (B, W, t) tokens to (B, W, t - forced)."""
        return self._n_bytes.to(tokens.device)[tokens[:, :, len(self._forced_ids) :]]

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        """Forbid what does not agree with the prefix; see `protocol.Constraint`."""
        position = tokens.shape[2]
        if position < len(self._forced_ids):
            allowed = torch.zeros(log_probs.shape[2], dtype=torch.bool, device=log_probs.device)
            allowed[self._forced_ids[position]] = True
            return log_probs.masked_fill(~allowed, -torch.inf)
        if position >= self.max_tokens:
            return log_probs
        said = tokens[:, :, len(self._forced_ids) :].tolist()
        masks = [torch.stack([self._allowed(row) for row in rows]) for rows in said]
        return log_probs.masked_fill(~torch.stack(masks).to(log_probs.device), -torch.inf)

    def _allowed(self, said: Sequence[int]) -> Tensor:
        """(V,) bool: pieces that may follow these, which follow the forced ones."""
        n_generated = sum(len(self._pieces[token_id]) for token_id in said)
        owed = self._open_bytes[n_generated:]
        if owed not in self._masks:
            mask = torch.full((len(self._pieces),), not owed)
            for n in range(1, self._longest + 1):
                mask[self._ids.get(owed[:n], [])] = True
            if len(owed) < self._longest:  # a long word has many ends, and no piece holds them
                mask[[n for n, piece in enumerate(self._pieces) if piece.startswith(owed)]] = True
            self._masks[owed] = mask
        return self._masks[owed]


class ForkedPrefix(ForcedPrefix):
    """All targets begin with the same tokens; then each goes on with one of its own.

    For one source that stands in a batch several times. A row says its beginning before it can end,
    so at the fork all rows are still there, in the order they were given.
    """

    def __init__(
        self,
        forced_ids: Sequence[int],
        forks: Sequence[int],
        *,
        vocab_size: int,
        piece_bytes: Callable[[int], bytes],
    ) -> None:
        """Prepare.

        Args:
            forced_ids: the tokens in front of the fork.
            forks: for each row its next token.
            vocab_size: V.
            piece_bytes: see `ForcedPrefix`.
        """
        ids = [*forced_ids, forks[0]]  # of the last, only that there is one counts
        super().__init__(ids, b"", vocab_size=vocab_size, piece_bytes=piece_bytes)
        self._forks = torch.tensor(list(forks))  # (B,)

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        """Forbid all but the beginning, and at the fork all but a row's own token."""
        if tokens.shape[2] != len(self._forced_ids) - 1:
            return super().__call__(log_probs, tokens)
        own = self._forks.to(log_probs.device)[:, None, None]  # (B, 1, 1)
        is_own = torch.arange(log_probs.shape[2], device=log_probs.device) == own  # (B, 1, V)
        return log_probs.masked_fill(~is_own, -torch.inf)
