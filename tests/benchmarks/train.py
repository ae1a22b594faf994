"""Training speed beside the peers, all in one run.

    python tests/benchmarks/train.py [--train train.de train.en] [--threads 2]

On a machine with a GPU (`transformers` is measured where it is installed):

    python tests/benchmarks/train.py --device cuda --shape tiny base --batch-tokens 4096 32768 \
        --dtypes bfloat16 --batches 16

The same shape in every system, the same batches (of real text with `--train`, else of lengths like
those of photo captions), the same optimizer: a step is forward, label-smoothed loss, backward,
clipping, AdamW. Ours is the step of `training.optim.step` as a run takes it. Systems take turns;
medians over the rounds are printed as a Markdown table. Asserts nothing.
"""

import argparse
import dataclasses
import itertools
import random
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from systems import SHAPES, Job, make_tokenizers, marian_config, take_turns
from tables import show_table
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.config import ModelConfig
from hubnmt.model.layers import SinusoidalPositions
from hubnmt.model.transformer import Transformer
from hubnmt.text.textfile import read_aligned
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from training.config.run import OptimizerConfig
from training.data.batching import Batch, collate, measure_lengths, plan_epoch
from training.distributed import ProcessGroup
from training.optim.step import Stepper

try:  # a peer, no need of ours
    from transformers import MarianMTModel
except ImportError:
    MarianMTModel = None

Step = Callable[[Batch], object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """What all systems share."""

    shape: ModelConfig
    batches: list[Batch]
    device: torch.device
    dtype: str


# --- the systems ---------------------------------------------------------------------------------


def make_ours(bench: Bench) -> Step:
    stepper = Stepper(
        Transformer(bench.shape).to(bench.device),
        OptimizerConfig(),
        ProcessGroup(bench.device),
        dtype=bench.dtype,
    )
    return lambda batch: stepper.finish_step(stepper.start_step([batch], lr=1e-4), step=1)


class PlainTransformer(nn.Module):
    """What the tutorials build on `nn.Transformer`, with tied embeddings."""

    def __init__(self, shape: ModelConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(shape.src_vocab_size, shape.d_model)
        self.positions = SinusoidalPositions(shape.d_model, shape.dropout)
        self.transformer = nn.Transformer(
            shape.d_model,
            shape.n_heads,
            shape.n_encoder_layers,
            shape.n_decoder_layers,
            shape.d_ff,
            shape.dropout,
            batch_first=True,
            norm_first=True,
        )

    def forward(self, batch: Batch) -> Tensor:
        n_tokens, pad_mask = batch.tgt_in.shape[1], batch.src.src_pad_mask
        hidden = self.transformer(
            self.positions(self.embedding(batch.src.src_ids)),
            self.positions(self.embedding(batch.tgt_in)),
            tgt_mask=nn.Transformer.generate_square_subsequent_mask(n_tokens, pad_mask.device),
            src_key_padding_mask=pad_mask,
            memory_key_padding_mask=pad_mask,
            tgt_is_causal=True,
        )
        return functional.linear(hidden, self.embedding.weight)  # (B, T, V)


def make_plain(bench: Bench) -> Step:
    model = PlainTransformer(bench.shape).to(bench.device)
    return make_step(bench, model, model)


def make_marian(bench: Bench) -> Step:
    config = marian_config(
        bench.shape, dropout=bench.shape.dropout, activation_function="relu", use_cache=False
    )
    model = MarianMTModel(config).to(bench.device).train()

    def logits(batch: Batch) -> Tensor:
        answer = model(
            input_ids=batch.src.src_ids,
            attention_mask=(~batch.src.src_pad_mask).long(),
            decoder_input_ids=batch.tgt_in,
        )
        return answer.logits  # (B, T, V)

    return make_step(bench, model, logits)


def make_step(bench: Bench, model: nn.Module, logits: Callable[[Batch], Tensor]) -> Step:
    """Wrap a peer in the training step that its users write; `logits` gives (B, T, V)."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)

    is_half = bench.dtype == "bfloat16"

    def step(batch: Batch) -> float:
        with torch.autocast(bench.device.type, torch.bfloat16, enabled=is_half):
            chosen = batch.pick(logits(batch))  # (N, V)
            loss = functional.cross_entropy(chosen, batch.labels, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


SYSTEMS = {"hubnmt": make_ours, "nn.Transformer": make_plain}
if MarianMTModel is not None:
    SYSTEMS["transformers Marian"] = make_marian


# --- batches -------------------------------------------------------------------------------------


def make_batches(
    files: Sequence[Path], vocab_size: int, *, batch_tokens: int, n: int, device: torch.device
) -> list[Batch]:
    """Cut the text, or random captions, into batches as a run does, and pick some."""
    if files:
        src, tgt = read_aligned(*files)
        tokenizer = Tokenizer.train([*src, *tgt], vocab_size)
        tokenizers = Tokenizers(tokenizer, tokenizer)
        sides = [tokenizer.encode_batch(src), tokenizer.encode_batch(tgt)]
    else:
        tokenizers = make_tokenizers(vocab_size)
        rng = random.Random(1)
        sides = [
            [
                rng.choices(range(3, vocab_size), k=min(60, max(4, round(rng.gauss(15, 5)))))
                for _ in range(max(29_000, n * batch_tokens // 10))
            ]
            for _ in range(2)
        ]
    pairs = list(zip(*sides, strict=True))
    plan = plan_epoch(measure_lengths(pairs), batch_tokens=batch_tokens, seed=1)
    return [
        collate([pairs[row] for row in rows.tolist()], tokenizers).to(device) for rows in plan[:n]
    ]


# --- the table -----------------------------------------------------------------------------------


def make_job(step: Step, bench: Bench) -> Job:
    def job() -> None:
        for batch in bench.batches:
            step(batch)
        if bench.device.type == "cuda":
            torch.cuda.synchronize()

    return job


def show(bench: Bench, *, n_rounds: int) -> None:
    jobs = {name: make_job(make(bench), bench) for name, make in SYSTEMS.items()}
    measured = take_turns(jobs, n_rounds)
    n_tokens = sum(len(batch.labels) for batch in bench.batches)
    print(f"\n{bench.dtype}: {len(bench.batches)} batches, {n_tokens:,} target tokens a round\n")
    ours, rows = statistics.median(measured["hubnmt"]), []
    for name, seconds in measured.items():
        median = statistics.median(seconds)
        slowest, fastest = n_tokens / max(seconds), n_tokens / min(seconds)
        spread = f"{slowest:,.0f} to {fastest:,.0f}"
        rows.append((name, f"{n_tokens / median:,.0f}", spread, f"{median / ours:.2f} x"))
    show_table(("system", "target tokens/s, median", "range", "ours is"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", nargs=2, type=Path, default=[], metavar=("SRC", "TGT"))
    parser.add_argument("--threads", type=int, default=0, help="0 leaves torch's choice")
    parser.add_argument("--shape", nargs="+", choices=list(SHAPES), default=["tiny"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--batch-tokens", nargs="+", type=int, default=[4096])
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    text = "real" if options.train else "random"
    print(f"torch {torch.__version__}, {name}, {torch.get_num_threads()} thread(s), {text} text")
    for name, batch_tokens in itertools.product(options.shape, options.batch_tokens):
        print(f"\n## {name}, {batch_tokens:,}-token batches", flush=True)
        shape = SHAPES[name]
        batches = make_batches(
            options.train,
            shape.src_vocab_size,
            batch_tokens=batch_tokens,
            n=options.batches,
            device=device,
        )
        for dtype in options.dtypes:
            bench = Bench(shape=shape, batches=batches, device=device, dtype=dtype)
            show(bench, n_rounds=options.rounds)


if __name__ == "__main__":
    main()
