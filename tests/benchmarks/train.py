"""Training speed beside the peers, all in one run.

    python tests/benchmarks/train.py [--train train.de train.en] [--threads 2]

On a machine with a GPU (`transformers` is measured where it is installed):

    python tests/benchmarks/train.py --device cuda --shape tiny base --batch-tokens 4096 32768 \
        --dtypes bfloat16 --batches 16 --compile

The same shape in every system, the same batches (of real text with `--train`, else of lengths like
those of photo captions), the same optimizer: a step is forward, label-smoothed loss, backward,
clipping, AdamW. Ours is the step of `training.optim.step` as a run takes it. Systems take turns;
medians over the rounds are printed as a Markdown table. `--compile` adds each system under
`torch.compile`. Asserts nothing.
"""

import argparse
import dataclasses
import itertools
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from shapes import Shape, Vocabulary, marian_config, model_config
from torch import Tensor, nn
from torch.nn import functional

from hubnmt.model import Transformer
from hubnmt.model.embedding import SinusoidalPositions
from hubnmt.text.tokenizer import Tokenizer, Tokenizers
from training.config.run import OptimizerConfig
from training.data.batching import Batch, Pair, collate, measure_lengths, plan_epoch
from training.distributed import ProcessGroup
from training.optim.step import Stepper

try:  # a peer, no need of ours
    from transformers import MarianMTModel
except ImportError:
    MarianMTModel = None

SHAPES = {
    "tiny": {"n": 4, "d_model": 128, "n_heads": 4, "d_ff": 256, "vocab_size": 8000, "p": 0.3},
    "small": {"n": 3, "d_model": 256, "n_heads": 4, "d_ff": 1024, "vocab_size": 8000, "p": 0.1},
    "base": {"n": 6, "d_model": 512, "n_heads": 8, "d_ff": 2048, "vocab_size": 32000, "p": 0.1},
}
Step = Callable[[Batch], object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Bench:
    """What all systems share."""

    shape: Shape
    batches: list[Batch]
    device: torch.device
    dtype: str
    compiled: bool = False

    def autocast(self) -> torch.autocast:
        is_half = self.dtype == "bfloat16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=is_half)


# --- the systems ---------------------------------------------------------------------------------


def make_ours(bench: Bench) -> Step:
    stepper = Stepper(
        Transformer(model_config(bench.shape, dropout=bench.shape["p"])).to(bench.device),
        OptimizerConfig(),
        ProcessGroup(bench.device),
        dtype=bench.dtype,
        compiled=bench.compiled,
    )
    return lambda batch: stepper.read(stepper.run([batch], lr=1e-4), step=1)


class PlainTransformer(nn.Module):
    """What the tutorials build on `nn.Transformer`, with tied embeddings."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        d_model = int(shape["d_model"])
        self.embedding = nn.Embedding(int(shape["vocab_size"]), d_model)
        self.positions = SinusoidalPositions(d_model, shape["p"])
        self.transformer = nn.Transformer(
            d_model,
            int(shape["n_heads"]),
            int(shape["n"]),
            int(shape["n"]),
            int(shape["d_ff"]),
            shape["p"],
            batch_first=True,
            norm_first=True,
        )

    def forward(self, src_ids: Tensor, tgt_in: Tensor, src_pad_mask: Tensor) -> Tensor:
        n_tokens = tgt_in.shape[1]
        future = nn.Transformer.generate_square_subsequent_mask(n_tokens, device=tgt_in.device)
        hidden = self.transformer(
            self.positions(self.embedding(src_ids)),
            self.positions(self.embedding(tgt_in)),
            tgt_mask=future,
            src_key_padding_mask=src_pad_mask,
            memory_key_padding_mask=src_pad_mask,
            tgt_is_causal=True,
        )
        return functional.linear(hidden, self.embedding.weight)


def make_plain(bench: Bench) -> Step:
    model = PlainTransformer(bench.shape).to(bench.device)
    return make_step(
        bench, model, lambda b: b.pick(model(b.src.src_ids, b.tgt_in, b.src.src_pad_mask))
    )


def make_marian(bench: Bench) -> Step:
    config = marian_config(
        bench.shape, dropout=bench.shape["p"], activation_function="relu", use_cache=False
    )
    model = MarianMTModel(config).to(bench.device).train()

    def logits(batch: Batch) -> Tensor:
        answer = model(
            input_ids=batch.src.src_ids,
            attention_mask=(~batch.src.src_pad_mask).long(),
            decoder_input_ids=batch.tgt_in,
        )
        return batch.pick(answer.logits)

    return make_step(bench, model, logits)


def make_step(bench: Bench, model: nn.Module, logits: Callable[[Batch], Tensor]) -> Step:
    """Wrap a peer in the training step that its users write; `logits` gives (N, V)."""
    if bench.compiled:
        logits = torch.compile(logits, dynamic=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), fused=True)

    def step(batch: Batch) -> float:
        with bench.autocast():
            loss = functional.cross_entropy(logits(batch), batch.labels, label_smoothing=0.1)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


SYSTEMS = {"hubnmt": make_ours, "nn.Transformer": make_plain}
if MarianMTModel is not None:
    SYSTEMS["transformers Marian"] = make_marian


def make_steps(bench: Bench, *, is_compiled_too: bool) -> dict[str, Step]:
    """Build every system, and every one once more under the compiler if that is wanted."""
    steps = {name: make(bench) for name, make in SYSTEMS.items()}
    if is_compiled_too:
        compiled = dataclasses.replace(bench, compiled=True)
        steps |= {f"{name}, compiled": make(compiled) for name, make in SYSTEMS.items()}
    return steps


# --- batches -------------------------------------------------------------------------------------


def make_batches(
    files: Sequence[Path], shape: Shape, *, batch_tokens: int, n: int, device: torch.device
) -> list[Batch]:
    """Cut the text, or random captions, into batches as a run does, and pick some."""
    size = int(shape["vocab_size"])
    tokenizer: Tokenizer = Vocabulary(size)
    if files:
        sides = [path.read_text(encoding="utf-8").splitlines() for path in files]
        tokenizer = Tokenizer.train((line for side in sides for line in side), size)
        src, tgt = (tokenizer.encode_batch(side) for side in sides)
        pairs: list[Pair] = list(zip(src, tgt, strict=True))
    else:
        rng = random.Random(1)

        def sentence() -> list[int]:
            return rng.choices(range(3, size), k=min(60, max(4, round(rng.gauss(15, 5)))))

        pairs = [(sentence(), sentence()) for _ in range(max(29_000, n * batch_tokens // 10))]
    plan = plan_epoch(measure_lengths(pairs), batch_tokens=batch_tokens, seed=1)
    return [
        collate([pairs[row] for row in rows.tolist()], Tokenizers(tokenizer, tokenizer)).to(device)
        for rows in plan[:n]
    ]


# --- the table -----------------------------------------------------------------------------------


def measure(steps: dict[str, Step], bench: Bench, n_rounds: int) -> dict[str, list[float]]:
    """Let the systems take turns over the batches; return the seconds of each round."""
    for step in steps.values():  # warm up
        for batch in bench.batches:
            step(batch)
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(n_rounds):
        for name, step in steps.items():
            synchronize(bench.device)
            started = time.perf_counter()
            for batch in bench.batches:
                step(batch)
            synchronize(bench.device)
            seconds[name].append(time.perf_counter() - started)
    return seconds


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def show(bench: Bench, *, n_rounds: int, is_compiled_too: bool) -> None:
    measured = measure(make_steps(bench, is_compiled_too=is_compiled_too), bench, n_rounds)
    n_tokens = sum(len(batch.labels) for batch in bench.batches)
    print(f"\n{bench.dtype}: {len(bench.batches)} batches, {n_tokens:,} target tokens a round")
    print("\n| system | target tokens/s, median | range | ours is |")
    print("|---|---|---|---|")
    ours = statistics.median(measured["hubnmt"])
    for name, seconds in measured.items():
        median = statistics.median(seconds)
        slowest, fastest = n_tokens / max(seconds), n_tokens / min(seconds)
        print(
            f"| {name} | {n_tokens / median:,.0f} | {slowest:,.0f} to {fastest:,.0f} | "
            f"{median / ours:.2f} x |"
        )


def describe_run(options: argparse.Namespace, device: torch.device) -> str:
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    text = "real" if options.train else "random"
    return (
        f"torch {torch.__version__}, {name}, {torch.get_num_threads()} thread(s), {text} text"
        + ("" if MarianMTModel else "; transformers is not installed and not measured")
    )


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
    parser.add_argument("--compile", action="store_true", help="measure torch.compile as well")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    device = torch.device(options.device)
    print(describe_run(options, device))
    for name, batch_tokens in itertools.product(options.shape, options.batch_tokens):
        print(f"\n## {name}, {batch_tokens:,}-token batches", flush=True)
        shape = SHAPES[name]
        batches = make_batches(
            options.train, shape, batch_tokens=batch_tokens, n=options.batches, device=device
        )
        for dtype in options.dtypes:
            bench = Bench(shape=shape, batches=batches, device=device, dtype=dtype)
            show(bench, n_rounds=options.rounds, is_compiled_too=options.compile)


if __name__ == "__main__":
    main()
