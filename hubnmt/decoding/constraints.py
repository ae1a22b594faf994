"""Constraints on the next token: repetition control, forced prefixes and required tokens.

Constraints depend only on the tokens generated so far and the next-token log-probabilities, so they
work with every decoding algorithm.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from hubnmt.config import DecodingConfig
from hubnmt.decoding.search import Constraint
from hubnmt.text.protected_spans import PLACEHOLDERS
from hubnmt.text.tokenizer import Tokenizer


def make_constraint(
    decoding: DecodingConfig,
    tokenizer: Tokenizer,
    *,
    prefix: "ForcedPrefix | None",
    placeholders: Sequence[Counter[str]],
    max_tgt_tokens: Tensor,
) -> Constraint | None:
    """Compose the constraints that options, a prefix and placeholders need; None if none.

    The tokenizer and the prefix are those of the target; `placeholders` are those of protected
    spans in each of B sources, which its target needs too; `max_tgt_tokens` (B,) excludes eos.
    """
    constraints: list[Constraint] = []
    if decoding.no_repeat_ngram_size or decoding.repetition_penalty != 1:
        constraints.append(_control_repetition(decoding, prefix))
    if prefix:
        constraints.append(prefix)
        if decoding.max_new_tokens:
            constraints.append(_limit_new_tokens(prefix, decoding.max_new_tokens))
    if any(placeholders):
        groups = {id: PLACEHOLDERS.index(mark) for id, mark in tokenizer.placeholder_ids.items()}
        required = [[count[mark] for mark in PLACEHOLDERS] for count in placeholders]
        needed = max_tgt_tokens.new_tensor(required)  # (B, K)
        constraints.append(RequiredTokens(groups, needed, max_tgt_tokens, eos_id=tokenizer.eos_id))

    def apply_all(log_probs: Tensor, tokens: Tensor, sentences: Tensor) -> Tensor:
        for constraint in constraints:
            log_probs = constraint(log_probs, tokens, sentences)
        return log_probs

    return apply_all if constraints else None


def _control_repetition(decoding: DecodingConfig, prefix: "ForcedPrefix | None") -> Constraint:
    """Create the constraint that controls repetition, but not while the prefix is generated."""

    def control(log_probs: Tensor, tokens: Tensor, _: Tensor) -> Tensor:
        controlled = log_probs
        if decoding.repetition_penalty != 1:
            controlled = penalize_repetition(controlled, tokens, decoding.repetition_penalty)
        if decoding.no_repeat_ngram_size:
            controlled = block_repeated_ngrams(controlled, tokens, decoding.no_repeat_ngram_size)
        if prefix is None or tokens.shape[2] >= prefix.max_tokens:
            return controlled
        contains_prefix = prefix.contains_prefix(tokens)  # (B, W)
        return torch.where(contains_prefix[:, :, None], controlled, log_probs)

    return control


def block_repeated_ngrams(log_probs: Tensor, tokens: Tensor, n: int) -> Tensor:
    """Forbid tokens that would complete an n-gram the hypothesis already contains.

    Takes and gives log_probs (B, W, V); `tokens` (B, W, t) are those so far, without bos.

    Source: Paulus et al. 2017, section 2.5, https://arxiv.org/abs/1705.04304
    """
    if tokens.shape[2] < n:
        return log_probs
    windows = tokens.unfold(2, n, 1)  # (B, W, t - n + 1, n)
    latest = tokens[:, :, tokens.shape[2] - n + 1 :]  # (B, W, n - 1)
    is_repeat = (windows[..., :-1] == latest[:, :, None]).all(-1)  # (B, W, t - n + 1)
    penalty = torch.zeros_like(is_repeat, dtype=log_probs.dtype)
    penalty = penalty.masked_fill(is_repeat, -torch.inf)
    return log_probs.scatter_add(2, windows[..., -1], penalty)


def penalize_repetition(log_probs: Tensor, tokens: Tensor, penalty: float) -> Tensor:
    """Multiply the log-probabilities of tokens (B, W, t) that a hypothesis contains by a penalty.

    Values above 1 make repetition less likely, below 1 more likely. Takes and gives log_probs
    (B, W, V).

    Source: Keskar et al. 2019, section 4.1, https://arxiv.org/abs/1909.05858, on log-probabilities.
    """
    if tokens.shape[2] == 0:
        return log_probs
    return log_probs.scatter(2, tokens, log_probs.gather(2, tokens) * penalty)


def _limit_new_tokens(prefix: "ForcedPrefix", most: int) -> Constraint:
    """Create a constraint that allows at most `most` tokens after the prefix.

    Hypotheses of one sentence may segment the prefix differently, so tokens are counted for each
    hypothesis. A hypothesis for which every token is forbidden ends with eos.
    """

    def limit(log_probs: Tensor, tokens: Tensor, _: Tensor) -> Tensor:
        is_full = prefix.count_new(tokens) >= most  # (B, W)
        return log_probs.masked_fill(is_full[:, :, None], -torch.inf)

    return limit


def is_cut(
    ids: Sequence[int],
    n_src_tokens: int,
    decoding: DecodingConfig,
    prefix: "ForcedPrefix | None" = None,
) -> bool:
    """Return whether a target has reached its maximum length."""
    if prefix and decoding.max_new_tokens:
        return int(prefix.count_new(torch.tensor([[ids]]))) >= decoding.max_new_tokens
    n_forced = prefix.max_tokens if prefix else 0
    return len(ids) >= n_forced + decoding.max_tgt_tokens(n_src_tokens)


def force_prefix(prefix: str, tokenizer: Tokenizer) -> "ForcedPrefix | None":
    """Return a constraint that forces a text, whose last word may be continued; None if empty."""
    if not prefix:
        return None
    *words, last = tokenizer.pre_tokens(prefix)
    whole = "".join(words)
    if whole == " ":  # only the space added before every text: no complete word
        whole, last = "", whole + last
    # No piece crosses a word boundary, so the pieces of the complete words come first.
    n_bytes, forced_ids = len(whole.encode()), []
    for token_id in tokenizer.encode(prefix):
        n_bytes -= len(tokenizer.piece_bytes(token_id))
        if n_bytes < 0:
            break
        forced_ids.append(token_id)
    return ForcedPrefix(tokenizer, [forced_ids], last.encode())


class ForcedPrefix:
    """Constraint that makes the targets start with given tokens, then with given bytes.

    Complete words of a prefix are forced in the tokenizer's own segmentation. The last word may
    be incomplete ("do" may become "dog"), so there every piece that is consistent with the
    remaining bytes is allowed, and the model chooses the segmentation.
    """

    def __init__(
        self, tokenizer: Tokenizer, forced_ids: Sequence[Sequence[int]], open_bytes: bytes = b""
    ) -> None:
        """Index the vocabulary by bytes.

        Args:
            tokenizer: of the target.
            forced_ids: pieces of the complete words: one row for all sentences, or one for each.
            open_bytes: UTF-8 bytes of the last word, which may be continued.
        """
        self.forced_ids = torch.tensor(forced_ids, dtype=torch.int64)  # (1 or B, n)
        self.open_bytes = open_bytes
        self._pieces = [tokenizer.piece_bytes(token_id) for token_id in range(tokenizer.vocab_size)]
        self._n_bytes = torch.tensor([len(piece) for piece in self._pieces])  # (V,)
        self._longest = max(map(len, self._pieces))
        self._ids: defaultdict[bytes, list[int]] = defaultdict(list)
        for token_id, piece in enumerate(self._pieces):
            self._ids[piece].append(token_id)
        self._masks: dict[bytes, Tensor] = {}

    @property
    def n_forced(self) -> int:
        """Number of forced tokens, before the open word."""
        return self.forced_ids.shape[1]

    @property
    def max_tokens(self) -> int:
        """Maximum number of tokens the prefix can take."""
        return self.n_forced + len(self.open_bytes)

    def contains_prefix(self, tokens: Tensor) -> Tensor:
        """Return which hypotheses contain the whole prefix: (B, W, t) tokens to (B, W) bool."""
        has_words = tokens.shape[2] >= self.n_forced
        return (self._count_bytes(tokens).sum(2) >= len(self.open_bytes)) & has_words

    def count_new(self, tokens: Tensor) -> Tensor:
        """Count the tokens that extend beyond the prefix: (B, W, t) tokens to (B, W).

        A piece that completes the prefix and continues it ("dogs" for "dog") is counted.
        """
        return (self._count_bytes(tokens).cumsum(2) > len(self.open_bytes)).sum(2)

    def _count_bytes(self, tokens: Tensor) -> Tensor:
        return self._n_bytes.to(tokens.device)[tokens[:, :, self.n_forced :]]

    def __call__(self, log_probs: Tensor, tokens: Tensor, sentences: Tensor) -> Tensor:
        """Forbid tokens that are inconsistent with the prefix; see `Constraint`."""
        position = tokens.shape[2]
        if position >= self.max_tokens:
            return log_probs
        if position < self.n_forced:
            forced = self.forced_ids[:, position].to(tokens.device)  # (1 or B,)
            forced = forced[sentences] if len(forced) > 1 else forced  # (1 or B',)
            ids = torch.arange(log_probs.shape[2], device=tokens.device)  # (V,)
            return log_probs.masked_fill(ids != forced[:, None, None], -torch.inf)
        generated = tokens[:, :, self.n_forced :].tolist()
        masks = [torch.stack([self._allowed(row) for row in rows]) for rows in generated]
        return log_probs.masked_fill(~torch.stack(masks).to(log_probs.device), -torch.inf)

    def _allowed(self, generated: Sequence[int]) -> Tensor:
        """Return a (V,) bool mask of the pieces allowed after `forced_ids` and `generated`."""
        n_bytes = sum(len(self._pieces[token_id]) for token_id in generated)
        rest = self.open_bytes[n_bytes:]
        if rest not in self._masks:
            mask = torch.full((len(self._pieces),), not rest)
            for n in range(1, self._longest + 1):
                mask[self._ids.get(rest[:n], [])] = True
            if len(rest) < self._longest:  # a longer piece may contain all that remains
                mask[[i for i, piece in enumerate(self._pieces) if piece.startswith(rest)]] = True
            self._masks[rest] = mask
        return self._masks[rest]


class RequiredTokens:
    """Constraint that a target contains required tokens, each exactly as often as required.

    A hypothesis with missing tokens does not end. Where its end would be more probable than all
    else, or where no more tokens may follow than are missing, one of these follows. Beyond the
    maximum length it ends without them.

    Source: lexically constrained decoding (Hokamp and Liu 2017, https://arxiv.org/abs/1704.07138;
    Post and Vilar 2018, https://arxiv.org/abs/1804.06609) in its simplest form, without banks.
    """

    def __init__(
        self, groups: Mapping[int, int], required: Tensor, max_tgt_tokens: Tensor, *, eos_id: int
    ) -> None:
        """Set the tokens and how often each is required.

        Args:
            groups: the group of each of the M constrained ids: those of one group count as the same
                token.
            required: (B, K) number of tokens of each of K groups that a sentence needs.
            max_tgt_tokens: (B,) maximum target length, eos not counted.
            eos_id: end-of-sentence token.
        """
        self._ids = max_tgt_tokens.new_tensor(list(groups))  # (M,)
        self._group_of_ids = max_tgt_tokens.new_tensor(list(groups.values()))  # (M,)
        self._required = required
        self._max_tgt_tokens = max_tgt_tokens
        self._eos_id = eos_id

    def __call__(self, log_probs: Tensor, tokens: Tensor, sentences: Tensor) -> Tensor:
        """Forbid surplus tokens, and an end without the missing ones; see `Constraint`."""
        generated = (tokens[..., None] == self._ids).sum(2)  # (B, W, M)
        missing = self._required[sentences][:, None].expand(-1, tokens.shape[1], -1)  # (B, W, K)
        groups = self._group_of_ids.expand_as(generated)
        missing = missing.scatter_add(2, groups, -generated)  # (B, W, K)
        is_missing = missing.gather(2, groups) > 0  # (B, W, M)
        candidates = log_probs[..., self._ids].masked_fill(~is_missing, -torch.inf)  # (B, W, M)
        n_missing = missing.sum(2)  # (B, W)
        ending = log_probs[..., self._eos_id]  # (B, W)
        n_left = (self._max_tgt_tokens[sentences] - tokens.shape[2])[:, None]  # (B, 1)
        allowed = log_probs.clone()
        is_next = (n_missing > 0) & ((ending > math.log(0.5)) | (n_left <= n_missing))
        is_next &= (candidates > -torch.inf).any(2)  # (B, W), False within a forced prefix
        if is_next.any():
            allowed.masked_fill_(is_next[:, :, None], -torch.inf)
        allowed[..., self._ids] = candidates
        allowed[..., self._eos_id].masked_fill_(n_missing > 0, -torch.inf)
        return allowed
