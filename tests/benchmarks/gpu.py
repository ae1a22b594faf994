"""Training, decoding and time to a score on a GPU: one command of at most ten minutes.

    python tests/benchmarks/gpu.py [--multi30k FOLDER] > gpu.md
    python tests/benchmarks/gpu.py --device cpu --dtype float32 --shapes tiny --batch-tokens 1024 \
        --sentences 1 64 --no-compile

Prints Markdown tables: training tokens per second and share of the peak, of tiny, small, base and
big, with and without `torch.compile`; decoding beside `transformers`, eager and compiled; and the
seconds to 37 BLEU on Multi30k, if FOLDER has its train, val and test_2016_flickr (.de and .en).
What is not installed is left out, what there is no time for is said. Asserts nothing.
"""

import argparse
import functools
import itertools
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from shapes import PAD_ID, Shape, Vocabulary, marian_config, model_config
from train import SHAPES as TRAINED
from train import (
    Bench,
    count_operations,
    make_batches,
    make_ours,
    measure_matrix_rate,
    synchronize,
)

from hubnmt.config import DecodingConfig
from hubnmt.decoding import run_search
from hubnmt.inference.engine import TorchEngine
from hubnmt.model import Transformer
from hubnmt.text.tokenizer import Tokenizers

try:  # a peer, no need of ours
    from transformers import MarianMTModel
except ImportError:
    MarianMTModel = None

ROOT = Path(__file__).parents[2]
SHAPES: dict[str, Shape] = {
    "toy": {"n": 1, "d_model": 16, "n_heads": 2, "d_ff": 16, "vocab_size": 300, "p": 0.1},
    **TRAINED,
    "big": {"n": 6, "d_model": 1024, "n_heads": 16, "d_ff": 4096, "vocab_size": 32000, "p": 0.1},
}
PEAKS = {"H200": 989e12, "H100": 989e12, "A100": 312e12, "L40S": 362e12, "L4": 121e12}
"""Dense bfloat16 operations per second, from the data sheets."""
N_TOKENS = 16
SHARES = {"training": 0.45, "decoding": 0.75, "goal": 1.0}
"""Each part ends before this share of the time."""
Job = Callable[[], object]


class Deadline:
    """Counts the minutes of the command."""

    def __init__(self, minutes: float) -> None:
        self._started, self._seconds = time.monotonic(), 60 * minutes

    def left(self, part: str) -> float:
        """Return the seconds that a part still has."""
        return self._started + SHARES[part] * self._seconds - time.monotonic()


def measure(job: Job, device: torch.device, *, seconds: float = 4.0) -> float:
    """Return the median seconds of a job, after warming up, within about some seconds."""
    for _ in range(2):  # the first compiles
        job()
    synchronize(device)
    spent: list[float] = []
    while len(spent) < 3 or (sum(spent) < seconds and len(spent) < 20):
        started = time.perf_counter()
        job()
        synchronize(device)
        spent.append(time.perf_counter() - started)
    return statistics.median(spent)


def attempt(measured: Callable[[], str], time_left: float) -> str:
    """Return a cell of a table, or why there is none."""
    if time_left <= 0:
        return "no time"
    try:
        return measured()
    except Exception as error:  # an optional peer or compiler; the next cell does not need it
        print(f"{type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
        return "failed"
    finally:
        torch._dynamo.reset()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


# --- training ------------------------------------------------------------------------------------


def show_training(options: argparse.Namespace, deadline: Deadline) -> None:
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else ""
    peak = next((rate for gpu, rate in PEAKS.items() if gpu in name), None)
    source = "data sheet" if peak else "one large product, measured"
    peak = peak or measure_matrix_rate(device, getattr(torch, options.dtype))
    print(f"\n## Training, {options.dtype}, peak {peak / 1e12:,.3g} Tflop/s ({source})\n")
    print("| shape | tokens a batch | tokens/s | of peak | compiled, tokens/s | of peak |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in options.shapes:
        batches = make_batches(
            [], SHAPES[name], batch_tokens=options.batch_tokens, n=options.batches, device=device
        )
        n_tokens = sum(len(batch.labels) for batch in batches)
        cells = []
        for compiled in (False, True)[: 1 + options.compile]:
            bench = Bench(
                shape=SHAPES[name],
                batches=batches,
                device=device,
                dtype=options.dtype,
                compiled=compiled,
            )
            cells.append(attempt(functools.partial(train, bench, peak), deadline.left("training")))
        cells = [each if "|" in each else f"{each} | " for each in cells]
        row = " | ".join([*cells, *[" | "] * (2 - len(cells))])
        print(f"| {name} | {n_tokens // len(batches):,} | {row} |", flush=True)


def train(bench: Bench, peak: float) -> str:
    """Return tokens per second and the share of the peak."""
    step = make_ours(bench)
    seconds = measure(lambda: [step(batch) for batch in bench.batches], bench.device)
    n_tokens = sum(len(batch.labels) for batch in bench.batches)
    n_operations = sum(count_operations(bench.shape, batch) for batch in bench.batches)
    return f"{n_tokens / seconds:,.0f} | {n_operations / seconds / peak:.1%}"


# --- decoding ------------------------------------------------------------------------------------


def show_decoding(options: argparse.Namespace, deadline: Deadline) -> None:
    device, dtype = torch.device(options.device), getattr(torch, options.dtype)
    systems = ["hubnmt", *(["transformers"] if MarianMTModel else [])]
    columns = [*systems, *(f"{each}, compiled" for each in systems if options.compile)]
    print(f"\n## Decoding, {options.dtype}, {N_TOKENS} tokens in and out, tokens/s\n")
    print("| work | " + " | ".join(columns) + " |")
    print("|---" + "|---:" * len(columns) + "|")
    for name in options.shapes:
        for n_sentences, beam_size in itertools.product(options.sentences, (1, 5)):
            torch.manual_seed(1)
            rows = torch.randint(3, int(SHAPES[name]["vocab_size"]), (n_sentences, N_TOKENS - 1))
            cells = []
            for column in columns:
                system, _, compiled = column.partition(", ")
                make = functools.partial(
                    MAKERS[system], SHAPES[name], rows, beam_size, device, dtype, bool(compiled)
                )
                decoded = functools.partial(decode, make, n_sentences, device)
                cells.append(attempt(decoded, deadline.left("decoding")))
            kind = "greedy" if beam_size == 1 else f"beam {beam_size}"
            work = f"{name}, {n_sentences} sentence{'s' * (n_sentences > 1)}, {kind}"
            print(f"| {work} | " + " | ".join(cells) + " |", flush=True)


@torch.inference_mode()
def decode(make: Callable[[], Job], n_sentences: int, device: torch.device) -> str:
    """Return tokens per second."""
    return f"{n_sentences * N_TOKENS / measure(make(), device):,.0f}"


def search_with_ours(
    shape: Shape,
    rows: torch.Tensor,
    beam_size: int,
    device: torch.device,
    dtype: torch.dtype,
    compiled: bool,
) -> Job:
    vocabulary = Vocabulary(int(shape["vocab_size"]))
    model = Transformer(model_config(shape)).eval().to(device, dtype)
    engine = TorchEngine(model, Tokenizers(vocabulary, vocabulary))
    if compiled:
        engine._packed.step = torch.compile(engine._packed.step, dynamic=True)
    decoding = DecodingConfig(beam_size=beam_size, max_new_tokens=N_TOKENS - 1)
    lists = rows.tolist()
    return lambda: run_search(engine.search(lists, decoding, max_batch_tokens=10**6))


def search_with_marian(
    shape: Shape,
    rows: torch.Tensor,
    beam_size: int,
    device: torch.device,
    dtype: torch.dtype,
    compiled: bool,
) -> Job:
    config = marian_config(shape, forced_eos_token_id=None)
    marian = MarianMTModel(config).eval().to(device, dtype)
    if compiled:
        marian.forward = torch.compile(marian.forward, dynamic=True)
    ids = rows.to(device)
    limits = {"min_new_tokens": N_TOKENS, "max_new_tokens": N_TOKENS, "do_sample": False}
    mask = (ids != PAD_ID).long()
    return lambda: marian.generate(ids, attention_mask=mask, num_beams=beam_size, **limits)


MAKERS = {"hubnmt": search_with_ours, "transformers": search_with_marian}


# --- time to a score -----------------------------------------------------------------------------


def show_goal(options: argparse.Namespace, deadline: Deadline) -> None:
    print("\n## Multi30k, German to English\n")
    if options.multi30k is None:
        print("not measured: --multi30k FOLDER is not given")
        return

    def side(name: str) -> list[str]:
        return [str(options.multi30k / f"{name}.{language}") for language in ("de", "en")]

    command = [sys.executable, str(ROOT / "tests" / "benchmarks" / "race.py")]
    command += [str(ROOT / "training" / "recipes" / "de-en-multi30k-fast.toml"), "--goal", "37"]
    command += ["--valid", *side("val"), "--test", *side("test_2016_flickr")]
    settings = {
        "data.train": ",".join(side("train")),
        "run.device": options.device,
        "run.eval_every": 200,
    }
    command += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, timeout=max(deadline.left("goal"), 1)
        )
    except subprocess.TimeoutExpired:
        print("no time")
        return
    print(done.stdout.strip().splitlines()[-1] if done.stdout.strip() else "failed")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES)[1:])
    parser.add_argument("--batch-tokens", type=int, default=32_768)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--sentences", nargs="+", type=int, default=[1, 64, 512])
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--multi30k", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    deadline = Deadline(options.minutes)
    device = torch.device(options.device)
    is_gpu = device.type == "cuda"
    machine = torch.cuda.get_device_name(device) if is_gpu else "CPU, no GPU"
    print(f"# {machine}, torch {torch.__version__}, {torch.get_num_threads()} thread(s)")
    if MarianMTModel is None:
        print("\ntransformers is not installed and not measured")
    for show in (show_training, show_decoding, show_goal):
        show(options, deadline)


if __name__ == "__main__":
    main()
