"""The search as CTranslate2 runs it: the same rows in, the same hypotheses out.

Takes a stored model, is an `hubnmt.pipeline.pipeline.Engine`. Must not know text. Greedy and beam search are
CTranslate2's. What it does not do as we do is left to the reference engine: sampling (its own
random numbers), prefixes that end inside a word, the repetition penalty (on logits there), n-gram
blocking in a beam (scores are renormalised there), and rows that reach their length limit (there is
no end of sentence in their score there).
"""

from collections.abc import Generator, Sequence
from contextlib import closing

import torch

from hubnmt.checkpoint.folder import StoredModel
from hubnmt.config import DecodingConfig
from hubnmt.decoding import ForcedPrefix, Hypothesis, Search
from hubnmt.inference.ctranslate2_export import N_POSITIONS, list_pieces, open_ctranslate2
from hubnmt.inference.engine import DEFAULT_BATCH_TOKENS, TorchEngine, max_tgt_tokens
from hubnmt.model.batching import group_by_length


class CTranslate2Engine:
    """Searches with CTranslate2, exported from the stored weights when it is made."""

    def __init__(
        self, stored: StoredModel, reference: TorchEngine, *, device: torch.device, dtype: str
    ) -> None:
        """Export the weights to a temporary folder and load them from there.

        Args:
            stored: the model.
            reference: does what CTranslate2 does otherwise.
            device: where it runs.
            dtype: of its products: `float32`, `float16`, `bfloat16` or `int8`.

        Raises:
            ConfigError: if CTranslate2 is not installed, or cannot run so.
        """
        self._reference = reference
        self._peer = open_ctranslate2(stored, device=device, compute_type=dtype)
        self._tgt_tokenizer = stored.tgt_tokenizer
        self._src_pieces = list_pieces(stored.src_tokenizer)
        self._tgt_pieces = list_pieces(stored.tgt_tokenizer)
        self._tgt_ids = {piece: token_id for token_id, piece in enumerate(self._tgt_pieces)}

    def search(
        self,
        rows: Sequence[Sequence[int]],
        decoding: DecodingConfig,
        *,
        prefix: ForcedPrefix | None = None,
        batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> Search:
        """Translate rows of ids; see `hubnmt.pipeline.pipeline.Engine`. A batch in a beam is one step."""
        if prefix is not None or not _is_same_there(decoding):
            return (
                yield from self._reference.search(
                    rows, decoding, prefix=prefix, batch_tokens=batch_tokens
                )
            )
        found: list[list[Hypothesis]] = [[] for _ in rows]
        budget = max(1, batch_tokens // decoding.beam_size)
        able = [index for index, row in enumerate(rows) if 0 < len(row) < N_POSITIONS]
        for group in group_by_length([len(rows[index]) + 1 for index in able], budget):
            batch = [able[place] for place in group]
            results = yield from self._search_batch([rows[index] for index in batch], decoding)
            for index, hypotheses in zip(batch, results, strict=True):
                found[index] = hypotheses
        undone = [index for index, hypotheses in enumerate(found) if not hypotheses]
        again = [rows[index] for index in undone]
        redone = yield from self._reference.search(again, decoding, batch_tokens=batch_tokens)
        for index, hypotheses in zip(undone, redone, strict=True):
            found[index] = hypotheses
        return found

    def _search_batch(self, rows: Sequence[Sequence[int]], decoding: DecodingConfig) -> Search:
        """Search one batch; a row that only the reference can do right gives an empty list."""
        caps = [max_tgt_tokens(len(row), decoding) for row in rows]
        sources = [[self._src_pieces[token_id] for token_id in row] for row in rows]
        options = {
            "no_repeat_ngram_size": decoding.no_repeat_ngram_size,
            "max_input_length": 0,
            "max_decoding_length": min(max(caps), N_POSITIONS - 1),
            "min_decoding_length": 0,
        }
        if decoding.beam_size == 1 and len(rows) == 1:
            found = [[(yield from self._follow(sources[0], options))]]
        else:
            yield []
            answers = self._peer.translate_batch(
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
        for cap, hypotheses in zip(caps, found, strict=True):
            is_whole = self._are_whole(hypotheses, cap)
            chosen.append(self._distinct(hypotheses)[: decoding.n_best] if is_whole else [])
        return self._score(sources, chosen, decoding.length_penalty)

    def _follow(
        self, source: list[str], options: dict[str, int]
    ) -> Generator[list[int], None, list[int]]:
        """Search one sentence greedily; yield its tokens as they grow."""
        ids: list[int] = []
        with closing(self._peer.generate_tokens(source, **options)) as steps:
            for step in steps:
                if step.token_id != self._tgt_tokenizer.eos_id:
                    ids.append(self._tgt_ids[step.token])
                    yield list(ids)
        return ids

    def _are_whole(self, hypotheses: Sequence[list[int]], cap: int) -> bool:
        """Tell whether none was cut, and none says what our search never does."""
        never = {self._tgt_tokenizer.pad_id, self._tgt_tokenizer.bos_id}
        limit = min(cap, N_POSITIONS - 1)
        return all(len(ids) < limit and never.isdisjoint(ids) for ids in hypotheses)

    def _distinct(self, hypotheses: Sequence[list[int]]) -> list[list[int]]:
        """Keep the best of each surface text: BPE can spell one text in many ways."""
        best: dict[str, list[int]] = {}
        for ids in hypotheses:
            best.setdefault(self._tgt_tokenizer.decode(ids), ids)
        return list(best.values())

    def _score(
        self,
        sources: Sequence[list[str]],
        chosen: Sequence[list[list[int]]],
        length_penalty: float,
    ) -> list[list[Hypothesis]]:
        """Ask for the log-probability of every token: a search there gives the sum alone."""
        pairs = [
            (source, [self._tgt_pieces[token_id] for token_id in ids])
            for source, targets in zip(sources, chosen, strict=True)
            for ids in targets
        ]
        scored = iter(
            self._peer.score_batch([s for s, _ in pairs], [t for _, t in pairs], max_input_length=0)
            if pairs
            else []
        )
        return [
            [_make_hypothesis(ids, next(scored).log_probs, length_penalty) for ids in targets]
            for targets in chosen
        ]


def _is_same_there(decoding: DecodingConfig) -> bool:
    """Tell whether CTranslate2 gives these options the meaning they have here."""
    blocks_in_beam = decoding.no_repeat_ngram_size and decoding.beam_size > 1
    return not (decoding.sample or decoding.repetition_penalty != 1 or blocks_in_beam)


def _make_hypothesis(
    ids: list[int], log_probs: Sequence[float], length_penalty: float
) -> Hypothesis:
    total = sum(log_probs)
    return Hypothesis(ids, total, total / len(log_probs) ** length_penalty, tuple(log_probs))
