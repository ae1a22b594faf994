"""The PyTorch engine: batch source rows by length and decode them."""

import itertools
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from hubnmt.config import DEFAULT_BATCH_TOKENS, DecodingConfig
from hubnmt.decoding.beam import BeamObserver, beam_search
from hubnmt.decoding.constraints import ForcedPrefix, make_constraint
from hubnmt.decoding.sampling import generate, random_choice
from hubnmt.decoding.search import NOT_FINITE, Hypothesis, Search, run_to_end
from hubnmt.errors import ModelFolderError
from hubnmt.inference.fast_layers import keep_freed_memory, with_fast_layers
from hubnmt.model.batching import batch_sources, batch_targets, group_by_length
from hubnmt.model.transformer import Transformer
from hubnmt.text.tokenizer import Tokenizer, Tokenizers

Pairs = Sequence[tuple[Sequence[int], Sequence[int]]]
"""Source and target ids without special tokens."""

SCORE_BATCH_PAIRS = 32
"""Batch size for scoring; the logits of 32 long sentences stay below 1 GB."""


class TorchEngine:
    """Decodes with the Transformer of this package."""

    def __init__(self, model: Transformer, tokenizers: Tokenizers) -> None:
        """Lay out the current weights of a model in eval mode for the search."""
        keep_freed_memory()
        self.model = model
        self._fast = with_fast_layers(model)
        self._tokenizers = tokenizers

    def search(
        self,
        rows: Sequence[Sequence[int]],
        decoding: DecodingConfig,
        *,
        prefix: ForcedPrefix | None = None,
        max_batch_tokens: int = DEFAULT_BATCH_TOKENS,
    ) -> Search:
        """Translate rows of ids without special tokens, one batch after the other.

        The prefix begins every target; `max_batch_tokens` are source tokens times hypotheses.

        Returns:
            a search that returns up to `n_best` hypotheses per row, best first, with distinct
            texts.

        Raises:
            ModelFolderError: if the model's log-probabilities are not finite.
        """
        found: list[list[Hypothesis]] = [[] for _ in rows]
        width = decoding.n_best if decoding.sample else decoding.beam_size
        budget = max(1, max_batch_tokens // width)
        for batch in self._group(rows, budget):
            sources = [rows[index] for index in batch]
            results = yield from self._search_batch(sources, decoding, prefix)
            if not all(results):
                raise ModelFolderError(NOT_FINITE)
            for index, hypotheses in zip(batch, results, strict=True):
                found[index] = choose_distinct(hypotheses, self._tokenizers.tgt, decoding.n_best)
        return found

    def _group(self, rows: Sequence[Sequence[int]], budget: int) -> Iterator[list[int]]:
        """Yield batches of indices of rows, those with placeholders apart.

        Only these need a constraint, which takes a tenth of the time of a search.
        """
        count = self._tokenizers.src.count_placeholders
        has_placeholders = [bool(count(row)) for row in rows]
        for kind in (False, True):
            chosen = [index for index, has in enumerate(has_placeholders) if has is kind]
            for group in group_by_length([len(rows[index]) + 1 for index in chosen], budget):
                yield [chosen[index] for index in group]

    def observe_beam(
        self, row: Sequence[int], decoding: DecodingConfig, observe: BeamObserver
    ) -> list[Hypothesis]:
        """Run beam search on one row, and report the continuations that each step considers.

        Returns:
            the hypotheses that `search` selects its distinct ones from, best first.
        """
        (found,) = run_to_end(self._search_batch([row], decoding, None, observe))
        return found

    @torch.inference_mode()
    def _search_batch(
        self,
        rows: Sequence[Sequence[int]],
        decoding: DecodingConfig,
        prefix: ForcedPrefix | None,
        observe: BeamObserver | None = None,
    ) -> Search:
        """Run the decoding algorithm that the options select."""
        # 1. Batch the sources.
        src, tgt = self._tokenizers
        device = self.model.output_proj.weight.device
        batch = batch_sources(rows, pad_id=src.pad_id, eos_id=src.eos_id)
        src_ids, src_pad_mask = (tensor.to(device) for tensor in batch)
        knows_placeholders = src.has_placeholders and tgt.has_placeholders
        counts = [src.count_placeholders(row) if knows_placeholders else Counter() for row in rows]
        # 2. Limit the lengths, and forbid tokens.
        # With a prefix an upper bound: how many tokens it takes is known only during the search,
        # where a constraint applies the exact limit.
        n_forced = prefix.max_tokens if prefix else 0
        caps = [n_forced + decoding.max_tgt_tokens(len(row)) for row in rows]
        longest = torch.tensor(caps, device=device)  # (B,)
        forbidden_ids = [tgt.pad_id, tgt.bos_id]
        if knows_placeholders and not any(counts):
            forbidden_ids += tgt.placeholder_ids
        constraint = make_constraint(
            decoding, tgt, prefix=prefix, placeholders=counts, max_tgt_tokens=longest
        )
        # 3. Encode, and run the algorithm.
        step = ModelStep(self._fast, src_ids, src_pad_mask, forbidden_ids=forbidden_ids)
        shared: dict[str, Any] = {
            "bos_id": tgt.bos_id,
            "eos_id": tgt.eos_id,
            "max_tgt_tokens": longest,
            "length_penalty": decoding.length_penalty,
            "constraint": constraint,
        }
        if decoding.sample:
            draw = random_choice(
                [_generator(decoding.seed, row) for row in rows],
                n_samples=decoding.n_best,
                temperature=decoding.temperature,
                top_k=decoding.top_k,
                top_p=decoding.top_p,
            )
            search = generate(step, **shared, choose=draw)
        elif decoding.beam_size == 1:
            search = generate(step, **shared)
        else:
            # For n-best lists request all W hypotheses, since some may have the same text.
            width = decoding.beam_size
            n_best = 1 if decoding.n_best == 1 else width
            search = beam_search(step, **shared, beam_size=width, n_best=n_best, observe=observe)
        return (yield from search)

    @torch.inference_mode()
    def score(self, pairs: Pairs) -> list[tuple[float, ...]]:
        """Return the log-probabilities of the target tokens and eos of any number of id pairs.

        They are in nats and, by teacher forcing, those of a search.
        """
        src, tgt = self._tokenizers
        device = self.model.output_proj.weight.device
        rows: list[tuple[float, ...]] = [()] * len(pairs)
        by_length = sorted(range(len(pairs)), key=lambda index: sum(map(len, pairs[index])))
        for start in range(0, len(pairs), SCORE_BATCH_PAIRS):
            chosen = by_length[start : start + SCORE_BATCH_PAIRS]
            sources, targets = zip(*(pairs[index] for index in chosen), strict=True)
            batch = batch_sources(sources, pad_id=src.pad_id, eos_id=src.eos_id)
            src_ids, src_pad_mask = (tensor.to(device) for tensor in batch)  # (B, S) each
            tgt_in, tgt_out, tgt_pad_mask = batch_targets(
                targets, pad_id=tgt.pad_id, bos_id=tgt.bos_id, eos_id=tgt.eos_id
            )  # (B, T) each
            memory = self._fast.encode(src_ids, src_pad_mask)
            hidden = self._fast.decode(tgt_in.to(device), memory, src_pad_mask)  # (B, T, D)
            is_label = ~tgt_pad_mask  # (B, T)
            logits = self._fast.project(hidden[is_label.to(device)]).float()  # (N, V)
            labels = tgt_out[is_label].to(device)  # (N,)
            flat = logits.log_softmax(-1).gather(1, labels[:, None])[:, 0].cpu()  # (N,)
            lengths = is_label.sum(1).tolist()
            for index, row in zip(chosen, torch.split(flat, lengths), strict=True):
                rows[index] = tuple(row.tolist())
        return rows


class ModelStep:
    """`Step` over a model, a batch of encoded sources and their decoder cache."""

    def __init__(
        self,
        model: Transformer,
        src_ids: Tensor,
        src_pad_mask: Tensor,
        *,
        forbidden_ids: Sequence[int] = (),
    ) -> None:
        """Encode the sources.

        Args:
            model: in eval mode; on a CPU a copy `with_fast_layers`, where the time matters.
            src_ids: (B, S).
            src_pad_mask: (B, S), True = padding.
            forbidden_ids: ids that no translation contains (pad, bos). The other log-probabilities
                are not renormalized, so that a search and a replay agree.
        """
        self._model = model
        pad_mask = src_pad_mask if src_pad_mask.any() else None
        self._cache = model.new_cache(model.encode(src_ids, pad_mask), pad_mask)
        self._forbidden_ids = torch.tensor(
            list(forbidden_ids), dtype=torch.int64, device=src_ids.device
        )

    def __call__(self, last_ids: Tensor) -> Tensor:
        """Decode one position: (B, W) newest tokens to log_probs (B, W, V) float32."""
        hidden = self._model.step(last_ids, self._cache)  # (B, W, D)
        logits = self._model.project(hidden).float()  # (B, W, V)
        # In place, because allocating a second tensor of this size takes longer.
        log_probs = torch.log_softmax(logits, -1, out=logits)  # (B, W, V)
        return log_probs.index_fill_(-1, self._forbidden_ids, -torch.inf)

    def reorder(self, parents: Tensor) -> None:
        """Make hypothesis w of sentence b continue `parents[b, w]`."""
        self._cache.reorder(parents)

    def keep(self, rows: Tensor) -> None:
        """Keep only the sentences at these indices."""
        self._cache.keep(rows)


def choose_distinct(
    hypotheses: Sequence[Hypothesis], tokenizer: Tokenizer, n_best: int
) -> list[Hypothesis]:
    """Keep the best hypothesis of each text: BPE can segment one text in several ways.

    Those that are valid UTF-8 come first.
    """

    def is_utf8(hypothesis: Hypothesis) -> bool:
        try:
            tokenizer.decode_bytes(hypothesis.ids).decode()
        except UnicodeDecodeError:
            return False
        return True

    best: dict[str, Hypothesis] = {}
    valid = filter(is_utf8, hypotheses)
    for hypothesis in itertools.chain(valid, itertools.filterfalse(is_utf8, hypotheses)):
        if len(best) == n_best:
            break
        best.setdefault(tokenizer.decode(hypothesis.ids), hypothesis)
    return list(best.values())


def _generator(seed: int, row: Sequence[int]) -> torch.Generator:
    digest = zlib.crc32(repr((seed, list(row))).encode())
    return torch.Generator().manual_seed((seed * 0x9E3779B1 + digest) % 2**63)
