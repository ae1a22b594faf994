"""The CTranslate2 engine, with greedy and beam search by CTranslate2.

Requests that CTranslate2 handles differently are delegated to the PyTorch engine: sampling (other
random numbers), prefixes that end inside a word, the repetition penalty (applied to logits there),
n-gram blocking in a beam (scores are renormalized there), rows that reach their length limit (their
score there excludes eos), and rows all of whose translations lost placeholders of protected spans,
which no constraint of CTranslate2 can require.
"""

from collections.abc import Generator, Sequence
from contextlib import closing

import torch

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DEFAULT_BATCH_TOKENS, DecodingConfig
from hubnmt.decoding import ForcedPrefix, Hypothesis, Search
from hubnmt.inference.ctranslate2_export import N_POSITIONS, open_ctranslate2
from hubnmt.inference.engine import TorchEngine, is_utf8, max_tgt_tokens
from hubnmt.inference.scoring import Pairs
from hubnmt.model.batching import group_by_length


class CTranslate2Engine:
    """Decodes with CTranslate2, from weights exported at construction."""

    def __init__(
        self, stored: StoredModel, reference: TorchEngine, *, device: torch.device, dtype: str
    ) -> None:
        """Export the weights to a temporary folder and load them from there.

        Args:
            stored: the model.
            reference: engine for requests that CTranslate2 handles differently.
            device: device to run on.
            dtype: compute type: `float32`, `float16`, `bfloat16` or `int8`.

        Raises:
            ConfigError: if CTranslate2 is not installed or does not support the device or dtype.
        """
        self._reference = reference
        self._ct2 = open_ctranslate2(stored, device=device, compute_type=dtype)
        self._src_tokenizer, self._tgt_tokenizer = stored.tokenizers
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
        """Translate rows of ids; see `pipeline.Engine`. A batch in beam search is one step."""
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
            batch = [supported[place] for place in group]
            results = yield from self._search_batch([rows[index] for index in batch], decoding)
            for index, hypotheses in zip(batch, results, strict=True):
                found[index] = hypotheses
        missing = [index for index, hypotheses in enumerate(found) if not hypotheses]
        sources = [rows[index] for index in missing]
        fallback = yield from self._reference.search(
            sources, decoding, max_batch_tokens=max_batch_tokens
        )
        for index, hypotheses in zip(missing, fallback, strict=True):
            found[index] = hypotheses
        return found

    def score(self, pairs: Pairs) -> list[tuple[float, ...]]:
        """See `pipeline.Engine`; the reference engine scores, in float32."""
        return self._reference.score(pairs)

    def _search_batch(self, rows: Sequence[Sequence[int]], decoding: DecodingConfig) -> Search:
        """Search one batch; return an empty list for rows that need the reference engine."""
        caps = [max_tgt_tokens(len(row), decoding) for row in rows]
        sources = [[self._src_pieces[token_id] for token_id in row] for row in rows]
        options = {
            "no_repeat_ngram_size": decoding.no_repeat_ngram_size,
            "max_input_length": 0,
            "max_decoding_length": min(max(caps), N_POSITIONS - 1),
            "min_decoding_length": 0,
        }
        if decoding.beam_size == 1 and len(rows) == 1:
            found = [[(yield from self._stream_greedy(sources[0], options))]]
        else:
            yield []
            answers = self._ct2.translate_batch(
                sources,
                beam_size=decoding.beam_size,
                num_hypotheses=decoding.beam_size,
                length_penalty=decoding.length_penalty,
                **options,
            )
            found = [
                [[self._tgt_ids[piece] for piece in pieces] for pieces in answer.hypotheses]
                for answer in answers
            ]
        chosen = []
        for row, cap, hypotheses in zip(rows, caps, found, strict=True):
            required = self._src_tokenizer.count_placeholders(row)
            kept = [
                ids
                for ids in self._distinct(hypotheses)
                if self._tgt_tokenizer.count_placeholders(ids) == required
            ]
            is_complete = self._are_complete(hypotheses, cap)
            chosen.append(kept[: decoding.n_best] if is_complete else [])
        return self._score(sources, chosen, decoding.length_penalty)

    def _stream_greedy(
        self, source: list[str], options: dict[str, int]
    ) -> Generator[list[int], None, list[int]]:
        """Search one sentence greedily; yield the tokens so far after each step."""
        ids: list[int] = []
        with closing(self._ct2.generate_tokens(source, **options)) as steps:
            for step in steps:
                if step.token_id != self._tgt_tokenizer.eos_id:
                    ids.append(self._tgt_ids[step.token])
                    yield list(ids)
        return ids

    def _are_complete(self, hypotheses: Sequence[list[int]], cap: int) -> bool:
        forbidden = {self._tgt_tokenizer.pad_id, self._tgt_tokenizer.bos_id}
        limit = min(cap, N_POSITIONS - 1)
        return all(len(ids) < limit and forbidden.isdisjoint(ids) for ids in hypotheses)

    def _distinct(self, hypotheses: Sequence[list[int]]) -> list[list[int]]:
        """Keep the best hypothesis of each text, see `TorchEngine`."""
        best: dict[str, list[int]] = {}
        for ids in sorted(hypotheses, key=lambda ids: not is_utf8(ids, self._tgt_tokenizer)):
            best.setdefault(self._tgt_tokenizer.decode(ids), ids)
        return list(best.values())

    def _score(
        self,
        sources: Sequence[list[str]],
        chosen: Sequence[list[list[int]]],
        length_penalty: float,
    ) -> list[list[Hypothesis]]:
        """Score every token: a CTranslate2 search returns only the sum of log-probabilities."""
        pairs = [
            (source, [self._tgt_pieces[token_id] for token_id in ids])
            for source, targets in zip(sources, chosen, strict=True)
            for ids in targets
        ]
        scored = iter(
            self._ct2.score_batch([s for s, _ in pairs], [t for _, t in pairs], max_input_length=0)
            if pairs
            else []
        )
        return [
            [_make_hypothesis(ids, next(scored).log_probs, length_penalty) for ids in targets]
            for targets in chosen
        ]


def _is_supported(decoding: DecodingConfig) -> bool:
    blocks_in_beam = decoding.no_repeat_ngram_size and decoding.beam_size > 1
    return not (decoding.sample or decoding.repetition_penalty != 1 or blocks_in_beam)


def _make_hypothesis(
    ids: list[int], log_probs: Sequence[float], length_penalty: float
) -> Hypothesis:
    total = sum(log_probs)
    return Hypothesis(ids, total, total / len(log_probs) ** length_penalty, tuple(log_probs))
