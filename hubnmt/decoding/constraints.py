"""Constraints on the next token: repetition control and forced prefixes.

Constraints depend only on the tokens generated so far and the next-token log-probabilities, so they
work with every decoding algorithm.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hubnmt.decoding.scoring import block_repeated_ngrams, penalize_repetition
from hubnmt.decoding.types import Constraint


def combine(constraints: Sequence[Constraint]) -> Constraint | None:
    """Compose constraints in order; return None if there are none."""
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
    """Create the constraints for repetition penalty and n-gram blocking.

    Args:
        no_repeat_ngram_size: 0 disables n-gram blocking.
        repetition_penalty: 1 disables the penalty.
        prefix: repetition is not controlled while this prefix is being generated.
    """

    def control(log_probs: Tensor, tokens: Tensor) -> Tensor:
        controlled = log_probs
        if repetition_penalty != 1:
            controlled = penalize_repetition(controlled, tokens, repetition_penalty)
        if no_repeat_ngram_size:
            controlled = block_repeated_ngrams(controlled, tokens, no_repeat_ngram_size)
        if prefix is None or tokens.shape[2] >= prefix.max_tokens:
            return controlled
        contains_prefix = prefix.contains_prefix(tokens)  # (B, W)
        return torch.where(contains_prefix[:, :, None], controlled, log_probs)

    return [control] if no_repeat_ngram_size or repetition_penalty != 1 else []


def limit_new_tokens(prefix: "ForcedPrefix", most: int) -> Constraint:
    """Create a constraint that allows at most `most` tokens after the prefix.

    Hypotheses of one sentence may segment the prefix differently, so tokens are counted for each
    hypothesis. A hypothesis for which every token is forbidden ends with eos.
    """

    def limit(log_probs: Tensor, tokens: Tensor) -> Tensor:
        is_full = prefix.count_new(tokens) >= most  # (B, W)
        return log_probs.masked_fill(is_full[:, :, None], -torch.inf)

    return limit


class ForcedPrefix:
    """Constraint that makes the target start with given bytes.

    Complete words of the prefix are forced in the tokenizer's own segmentation. The last word may
    be incomplete ("do" may become "dog"), so there every piece that is consistent with the
    remaining bytes is allowed, and the model chooses the segmentation.
    """

    def __init__(
        self,
        forced_ids: Sequence[int],
        open_bytes: bytes,
        *,
        vocab_size: int,
        piece_bytes: Callable[[int], bytes],
    ) -> None:
        """Index the vocabulary by bytes.

        Args:
            forced_ids: pieces of the complete words.
            open_bytes: UTF-8 bytes of the last word, which may be continued.
            vocab_size: V.
            piece_bytes: maps an id to its bytes; empty for special tokens.
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
        """Pieces of the complete words."""
        return tuple(self._forced_ids)

    @property
    def open_bytes(self) -> bytes:
        """UTF-8 bytes of the last word, which may be continued."""
        return self._open_bytes

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens the prefix can take."""
        return len(self._forced_ids) + len(self._open_bytes)

    def contains_prefix(self, tokens: Tensor) -> Tensor:
        """Return which hypotheses contain the whole prefix: (B, W, t) tokens to (B, W) bool."""
        if tokens.shape[2] < len(self._forced_ids):
            return torch.zeros(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        return self._count_bytes(tokens).sum(2) >= len(self._open_bytes)

    def count_new(self, tokens: Tensor) -> Tensor:
        """Count the tokens that extend beyond the prefix: (B, W, t) tokens to (B, W).

        A piece that completes the prefix and continues it ("dogs" for "dog") is counted.
        """
        return (self._count_bytes(tokens).cumsum(2) > len(self._open_bytes)).sum(2)

    def _count_bytes(self, tokens: Tensor) -> Tensor:
        """Return bytes per token after the forced ones: (B, W, t) to (B, W, t - forced)."""
        return self._n_bytes.to(tokens.device)[tokens[:, :, len(self._forced_ids) :]]

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        """Forbid tokens that are inconsistent with the prefix; see `Constraint`."""
        position = tokens.shape[2]
        if position < len(self._forced_ids):
            allowed = torch.zeros(log_probs.shape[2], dtype=torch.bool, device=log_probs.device)
            allowed[self._forced_ids[position]] = True
            return log_probs.masked_fill(~allowed, -torch.inf)
        if position >= self.max_tokens:
            return log_probs
        generated = tokens[:, :, len(self._forced_ids) :].tolist()
        masks = [torch.stack([self._allowed(row) for row in rows]) for rows in generated]
        return log_probs.masked_fill(~torch.stack(masks).to(log_probs.device), -torch.inf)

    def _allowed(self, generated: Sequence[int]) -> Tensor:
        """Return a (V,) bool mask of the pieces allowed after `forced_ids` and `generated`."""
        n_bytes = sum(len(self._pieces[token_id]) for token_id in generated)
        rest = self._open_bytes[n_bytes:]
        if rest not in self._masks:
            mask = torch.full((len(self._pieces),), not rest)
            for n in range(1, self._longest + 1):
                mask[self._ids.get(rest[:n], [])] = True
            if len(rest) < self._longest:  # a longer piece may contain all that remains
                mask[[i for i, piece in enumerate(self._pieces) if piece.startswith(rest)]] = True
            self._masks[rest] = mask
        return self._masks[rest]


class ForkedPrefix(ForcedPrefix):
    """Constraint that forces a shared prefix, then a different next token for each row.

    The batch repeats one source once per row. No row can end before the fork, so all rows are still
    present at that step, in their original order.
    """

    def __init__(
        self,
        forced_ids: Sequence[int],
        forks: Sequence[int],
        *,
        vocab_size: int,
        piece_bytes: Callable[[int], bytes],
    ) -> None:
        """Set the shared prefix and the token of each row.

        Args:
            forced_ids: tokens before the fork.
            forks: next token of each row.
            vocab_size: V.
            piece_bytes: see `ForcedPrefix`.
        """
        ids = [*forced_ids, forks[0]]  # the last id is a placeholder: only its position counts
        super().__init__(ids, b"", vocab_size=vocab_size, piece_bytes=piece_bytes)
        self._forks = torch.tensor(list(forks))  # (B,)

    def __call__(self, log_probs: Tensor, tokens: Tensor) -> Tensor:
        """Force the prefix, and at the fork each row's own token."""
        if tokens.shape[2] != len(self._forced_ids) - 1:
            return super().__call__(log_probs, tokens)
        own = self._forks.to(log_probs.device)[:, None, None]  # (B, 1, 1)
        is_own = torch.arange(log_probs.shape[2], device=log_probs.device) == own  # (B, 1, V)
        return log_probs.masked_fill(~is_own, -torch.inf)
