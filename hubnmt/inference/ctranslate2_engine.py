"""The CTranslate2 engine, with greedy and beam search by CTranslate2.

Requests that CTranslate2 handles differently are delegated to the PyTorch engine: sampling (other
random numbers), prefixes that end inside a word, the repetition penalty (applied to logits there),
n-gram blocking in a beam (scores are renormalized there), rows that reach `max_new_tokens` (their
score there excludes eos), and rows all of whose translations lost placeholders of protected spans,
which no constraint of CTranslate2 can require.
"""

import functools
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, overload

import torch

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DEFAULT_BATCH_TOKENS, DecodingConfig
from hubnmt.decoding.constraints import ForcedPrefix
from hubnmt.decoding.search import Hypothesis, Search, make_hypothesis
from hubnmt.inference.ctranslate2_export import N_POSITIONS, open_ctranslate2
from hubnmt.inference.engine import Pairs, TorchEngine, choose_distinct
from hubnmt.model.batching import group_by_length


class CTranslate2Engine:
    """Decodes with CTranslate2, from weights exported at construction."""

    def __init__(
        self, stored: StoredModel, reference: TorchEngine, *, device: torch.device, dtype: str
    ) -> None:
        """Export the weights to a temporary folder and load them from there.

        `reference` takes the requests that CTranslate2 handles differently; `dtype` is the type
        that it computes in: `float32`, `float16`, `bfloat16` or `int8`.

        Raises:
            ConfigError: if CTranslate2 is not installed or does not support the device or dtype.
        """
        self._reference = reference
        self._ct2 = open_ctranslate2(stored, device=device, compute_type=dtype)
        self._tokenizers = stored.tokenizers
        self._src_pieces = stored.tokenizers.src.pieces
        self._tgt_pieces = stored.tokenizers.tgt.pieces
        self._tgt_ids = {piece: token_id for token_id, piece in enumerate(self._tgt_pieces)}

    def search(
        self,
        rows: Sequence[Sequence[int]],
        decoding: DecodingConfig,
        *,
        prefix: ForcedPrefix | None = None,
        max_batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> Search:
        """Translate rows of ids; see `TorchEngine.search`. A batch in beam search is one step."""
        if prefix is not None or not _is_supported(decoding):
            return (
                yield from self._reference.search(
                    rows, decoding, prefix=prefix, max_batch_tokens=max_batch_tokens
                )
            )
        found: list[list[Hypothesis]] = [[] for _ in rows]
        budget = max(1, max_batch_tokens // decoding.beam_size)
        supported = [index for index, row in enumerate(rows) if 0 < len(row) < N_POSITIONS]
        for group in group_by_length([len(rows[index]) + 1 for index in supported], budget):
            batch = [supported[index] for index in group]
            results = yield from self._search_batch([rows[index] for index in batch], decoding)
            for index, hypotheses in zip(batch, results, strict=True):
                found[index] = hypotheses
        missing = [index for index, hypotheses in enumerate(found) if not hypotheses]
        sources = [rows[index] for index in missing]
        others = yield from self._reference.search(
            sources, decoding, max_batch_tokens=max_batch_tokens
        )
        for index, hypotheses in zip(missing, others, strict=True):
            found[index] = hypotheses
        return found

    def score(self, pairs: Pairs) -> list[tuple[float, ...]]:
        """Return the log-probabilities of the target tokens and eos of any number of id pairs."""
        if not all(0 < len(src) < N_POSITIONS > len(tgt) for src, tgt in pairs):
            return self._reference.score(pairs)
        sources = [[self._src_pieces[token_id] for token_id in src] for src, _ in pairs]
        targets = [[self._tgt_pieces[token_id] for token_id in tgt] for _, tgt in pairs]
        scored = self._ct2.score_batch(sources, targets, max_input_length=0)
        return [tuple(each.log_probs) for each in scored]

    def _search_batch(self, rows: Sequence[Sequence[int]], decoding: DecodingConfig) -> Search:
        """Search one batch; return an empty list for rows that need the reference engine."""
        caps = [decoding.max_tgt_tokens(len(row)) for row in rows]
        sources = [[self._src_pieces[token_id] for token_id in row] for row in rows]
        options = {
            "no_repeat_ngram_size": decoding.no_repeat_ngram_size,
            "max_input_length": 0,
            "max_decoding_length": min(max(caps), N_POSITIONS - 1),
            "min_decoding_length": 0,
        }
        if decoding.beam_size == 1 and len(rows) == 1:
            found = [(yield from self._stream_greedy(sources[0], options, decoding.length_penalty))]
        else:
            yield []
            answers = self._ct2.translate_batch(
                sources,
                beam_size=decoding.beam_size,
                num_hypotheses=decoding.beam_size,
                length_penalty=decoding.length_penalty,
                return_scores=True,
                **options,
            )
            found = [self._read(*each, decoding) for each in zip(sources, answers, strict=True)]
            if decoding.no_repeat_ngram_size:  # the scores are those of what was not forbidden
                pairs = [(row, best.ids) for row, (best, *_) in zip(rows, found, strict=True)]
                found = [
                    [make_hypothesis(ids, log_probs, decoding.length_penalty)]
                    for (_, ids), log_probs in zip(pairs, self.score(pairs), strict=True)
                ]
        return [
            self._choose(row, hypotheses, cap, decoding)
            for row, cap, hypotheses in zip(rows, caps, found, strict=True)
        ]

    def _choose(
        self, row: Sequence[int], hypotheses: list[Hypothesis], cap: int, decoding: DecodingConfig
    ) -> list[Hypothesis]:
        """Return the distinct hypotheses of a row; none if it needs the reference engine."""
        tgt = self._tokenizers.tgt
        limit, forbidden = min(cap, N_POSITIONS - 1), {tgt.pad_id, tgt.bos_id}
        if not all(forbidden.isdisjoint(each.ids) for each in hypotheses):
            return []
        has_ended = [len(each.ids) < limit for each in hypotheses]
        if decoding.max_new_tokens is None and cap == limit and not any(has_ended):
            # Degenerate: cut as the reference would, but with whatever placeholders it has.
            ids = hypotheses[0].ids[:cap]
            return [make_hypothesis(ids, self.score([(row, ids)])[0], decoding.length_penalty)]
        if not all(has_ended):
            return []
        kept = [each for each in hypotheses if self._tokenizers.keep_spans(row, each.ids)]
        return choose_distinct(kept, tgt, decoding.n_best)

    def _read(self, source: list[str], answer: Any, decoding: DecodingConfig) -> list[Hypothesis]:
        """Return the hypotheses of one sentence; a search returns only the score of each."""
        found = []
        for pieces, score in zip(answer.hypotheses, answer.scores, strict=True):
            n_tokens = len(pieces) + 1
            log_prob = score * n_tokens**decoding.length_penalty
            log_probs = LazyLogProbs(functools.partial(self._score, source, pieces), n_tokens)
            ids = [self._tgt_ids[piece] for piece in pieces]
            found.append(Hypothesis(ids, log_prob, score, log_probs))
        return found

    def _score(self, source: list[str], pieces: list[str]) -> list[float]:
        (scored,) = self._ct2.score_batch([source], [pieces], max_input_length=0)
        return scored.log_probs  # type: ignore[no-any-return]

    def _stream_greedy(
        self, source: list[str], options: dict[str, int], length_penalty: float
    ) -> Generator[list[int], None, list[Hypothesis]]:
        """Search one sentence greedily; yield the tokens so far after each step."""
        ids: list[int] = []
        pieces: list[str] = []
        with closing(self._ct2.generate_tokens(source, **options)) as steps:
            for step in steps:
                if step.token_id != self._tokenizers.tgt.eos_id:
                    ids.append(self._tgt_ids[step.token])
                    pieces.append(step.token)
                    yield list(ids)
        return [make_hypothesis(ids, self._score(source, pieces), length_penalty)]


class LazyLogProbs(Sequence[float]):
    """Log-probabilities of the tokens of a hypothesis, computed when they are first read.

    To score a translation takes a third of the time of its search.
    """

    def __init__(self, score: Callable[[], Sequence[float]], n_tokens: int) -> None:
        """Remember how to score; nothing is computed yet."""
        self._score: Callable[[], Sequence[float]] = functools.cache(score)
        self._n_tokens = n_tokens

    def __len__(self) -> int:
        """Return the number of tokens, eos included."""
        return self._n_tokens

    @overload
    def __getitem__(self, index: int) -> float: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[float]: ...

    def __getitem__(self, index: int | slice) -> float | Sequence[float]:
        """Return the log-probability of one token or several, in nats."""
        return self._score()[index]

    def __reduce__(self) -> tuple[type[tuple[float, ...]], tuple[list[float]]]:
        """Pickle and copy the numbers."""
        return tuple, (list(self),)


def _is_supported(decoding: DecodingConfig) -> bool:
    blocks_in_beam = decoding.no_repeat_ngram_size and decoding.beam_size > 1
    return not (decoding.sample or decoding.repetition_penalty != 1 or blocks_in_beam)
