"""Decoding speed beside the peers, all in one run, as a Markdown table.

    python tests/benchmarks/decode.py [--threads 1 2] [--shapes tiny small base]
        [--rounds N] [--cpu-time] [--model MODEL] [--text FILE] [--ref FILE]

Synthetic part: the same shape in every system, 16 source tokens in, 16 target tokens out. Ours and
CTranslate2 share random weights (through `hubnmt.inference.ctranslate2_export`); `transformers`
Marian has its own. Real part (`--text`, one sentence a line; 200 lines of news by default): one
model, the bare search of ours and of CTranslate2, and as used: `Translator.translate` with its
guard, alone and with the engine CTranslate2; with BLEU if there are references. Systems take turns,
so that a busy machine slows all of them. Printed are medians of wall-clock time, or with
`--cpu-time` (for a machine that others use, with one thread) the least CPU time of the process; in
brackets, how much faster ours in float32 is.
Asserts nothing.
"""

import argparse
import copy
import dataclasses
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import ctranslate2
import torch
from shapes import Vocabulary, marian_config, model_config
from turns import Job, take_turns

from hubnmt.checkpoint.folder import StoredModel, load_model
from hubnmt.config import DecodingConfig
from hubnmt.decoding import run_search
from hubnmt.hub.pull import locate_model
from hubnmt.inference.ctranslate2_export import export_ctranslate2
from hubnmt.inference.engine import TorchEngine
from hubnmt.model import Transformer
from hubnmt.text.metrics import score_corpus
from hubnmt.text.tokenizer import Tokenizers
from hubnmt.translator import Translator

try:  # a peer, no need of ours
    import transformers
except ImportError:
    transformers = None

SHAPES = {
    "toy": {"n": 1, "d_model": 16, "n_heads": 2, "d_ff": 16, "vocab_size": 300},
    "tiny": {"n": 4, "d_model": 128, "n_heads": 4, "d_ff": 256, "vocab_size": 8000},
    "small": {"n": 3, "d_model": 256, "n_heads": 4, "d_ff": 1024, "vocab_size": 8000},
    "base": {"n": 6, "d_model": 512, "n_heads": 8, "d_ff": 2048, "vocab_size": 16000},
}
N_TOKENS = 16
NEWS = Path(__file__).parents[1] / "fixtures" / "news.en"


COLUMNS = (
    "hubnmt",
    "hubnmt bf16",
    "hubnmt as used",
    "hubnmt as used, ctranslate2",
    "hubnmt as used, ctranslate2 int8",
    "transformers",
    "ctranslate2 float32",
    "ctranslate2 int8",
)


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """How jobs are timed."""

    n_rounds: int | None
    is_cpu_time: bool

    def measure(self, jobs: dict[str, Job], default_rounds: int) -> dict[str, float]:
        """Return the seconds of each job."""
        clock = time.process_time if self.is_cpu_time else time.perf_counter
        seconds = take_turns(jobs, self.n_rounds or default_rounds, clock)
        choose = min if self.is_cpu_time else statistics.median
        return {name: choose(values) for name, values in seconds.items()}


def show_head() -> None:
    print("| threads | work | unit | " + " | ".join(COLUMNS) + " |")
    print("|---|---|---" + "|---:" * len(COLUMNS) + "|")


def show(work: str, seconds: dict[str, float], *, n_sentences: int, n_tokens: int) -> None:
    """Print one row: latency in ms for one sentence, else throughput."""
    ours = seconds["hubnmt"]
    cells = []
    for name in COLUMNS:
        if name not in seconds:
            cells.append("")
            continue
        each = seconds[name]
        number = f"{1e3 * each:.1f}" if n_sentences == 1 else f"{n_tokens / each:,.0f}"
        cells.append(number if name == "hubnmt" else f"{number} ({each / ours:.2f})")
    unit = "ms" if n_sentences == 1 else "tokens/s"
    threads = torch.get_num_threads()
    print(f"| {threads} | {work} | {unit} | " + " | ".join(cells) + " |", flush=True)


def synthetic(name: str, *, threads: int, folder: Path, timing: Timing) -> None:
    shape = SHAPES[name]
    vocabulary = Vocabulary(shape["vocab_size"])
    torch.manual_seed(1)
    stored = StoredModel(
        model=Transformer(model_config(shape)).eval(),
        tokenizers=Tokenizers(vocabulary, vocabulary),
        decoding=DecodingConfig(),
    )
    export_ctranslate2(stored, folder / name)
    pieces = vocabulary.pieces
    tokenizers = Tokenizers(vocabulary, vocabulary)
    engine = TorchEngine(stored.model, tokenizers)
    half = TorchEngine(copy.deepcopy(stored.model).bfloat16(), tokenizers)
    if transformers:
        config = marian_config(shape, forced_eos_token_id=None)
        marian = transformers.MarianMTModel(config).eval()
    peers = {
        kind: ctranslate2.Translator(
            str(folder / name), device="cpu", compute_type=kind, intra_threads=threads
        )
        for kind in ("float32", "int8")
    }
    for n_sentences, beam_size in ((1, 1), (1, 5), (64, 1), (64, 5)):
        rows = torch.randint(3, shape["vocab_size"], (n_sentences, N_TOKENS - 1))
        lists = rows.tolist()
        named = [[pieces[i] for i in row] for row in lists]
        decoding = DecodingConfig(beam_size=beam_size, max_new_tokens=N_TOKENS - 1)
        ours = {"hubnmt": engine, "hubnmt bf16": half}
        jobs: dict[str, Job] = {
            kind: lambda e=each, d=decoding, r=lists: run_search(
                e.search(r, d, max_batch_tokens=10**6)
            )
            for kind, each in ours.items()
        }
        if transformers:
            jobs["transformers"] = lambda r=rows, b=beam_size: marian.generate(
                r, num_beams=b, min_new_tokens=N_TOKENS, max_new_tokens=N_TOKENS, do_sample=False
            )
        for kind, peer in peers.items():
            jobs[f"ctranslate2 {kind}"] = lambda p=peer, r=named, b=beam_size: p.translate_batch(
                r, beam_size=b, min_decoding_length=N_TOKENS - 1, max_decoding_length=N_TOKENS - 1
            )
        seconds = timing.measure(jobs, 9 if n_sentences == 1 else 3)
        work = f"{name}, {n_sentences} sentence{'s' * (n_sentences > 1)}, {label(beam_size)}"
        show(work, seconds, n_sentences=n_sentences, n_tokens=n_sentences * N_TOKENS)


def label(beam_size: int) -> str:
    return "greedy" if beam_size == 1 else f"beam {beam_size}"


def real(
    model: str, text: Path, ref: Path | None, *, threads: int, folder: Path, timing: Timing
) -> None:
    source, _ = locate_model(model)
    stored = load_model(source)
    export_ctranslate2(stored, folder / "real")
    exact = Translator(stored)
    half = Translator(load_model(source), dtype="bfloat16")
    fast = {
        dtype: Translator(load_model(source), dtype=dtype, engine="ctranslate2")
        for dtype in ("float32", "int8")
    }
    pieces = stored.tokenizers.src.pieces
    lines = text.read_text(encoding="utf-8").splitlines()
    rows = stored.tokenizers.src.encode_batch(lines)
    named = [[pieces[i] for i in row] for row in rows]
    names = {piece: i for i, piece in enumerate(stored.tokenizers.tgt.pieces)}
    peers = {
        kind: ctranslate2.Translator(
            str(folder / "real"), device="cpu", compute_type=kind, intra_threads=threads
        )
        for kind in ("float32", "int8")
    }
    for beam_size in (1, 4):

        def ours(translator: Translator, *, guard: bool = False, b: int = beam_size) -> list[str]:
            return [t.text for t in translator.translate(lines, beam_size=b, guard=guard)]

        def theirs(kind: str, b: int = beam_size) -> list[str]:
            answers = peers[kind].translate_batch(
                named,
                beam_size=b,
                length_penalty=stored.decoding.length_penalty,
                max_batch_size=4096 // b,
                batch_type="tokens",
            )
            ids = [[names[piece] for piece in answer.hypotheses[0]] for answer in answers]
            return [stored.tokenizers.tgt.decode(row) for row in ids]

        jobs: dict[str, Callable[[], list[str]]] = {
            "hubnmt": lambda: ours(exact),
            "hubnmt bf16": lambda: ours(half),
            "hubnmt as used": lambda: ours(exact, guard=True),
            "hubnmt as used, ctranslate2": lambda: ours(fast["float32"], guard=True),
            "hubnmt as used, ctranslate2 int8": lambda: ours(fast["int8"], guard=True),
            **{f"ctranslate2 {kind}": lambda k=kind: theirs(k) for kind in peers},
        }
        texts = {name: job() for name, job in jobs.items()}
        mine = texts["hubnmt"]
        n_tokens = sum(len(row) + 1 for row in stored.tokenizers.tgt.encode_batch(mine))
        seconds = timing.measure(jobs, 3)
        work = f"{text.name}, {len(lines):,} lines, {label(beam_size)}"
        show(work, seconds, n_sentences=len(lines), n_tokens=n_tokens)
        for name, other in texts.items():
            same = sum(a == b for a, b in zip(mine, other, strict=True))
            note = f"{name}, {label(beam_size)}: {100 * same / len(lines):.1f} % same lines"
            if ref is not None:
                references = ref.read_text(encoding="utf-8").splitlines()
                note += f", BLEU {score_corpus(other, references).bleu:.2f}"
            print(note, file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--shapes", nargs="*", choices=list(SHAPES), default=list(SHAPES)[1:])
    parser.add_argument("--rounds", type=int, help="default: 9 for one sentence, 3 for more")
    parser.add_argument("--cpu-time", action="store_true")
    parser.add_argument("--model", default="en-fr")
    parser.add_argument("--text", type=Path, default=NEWS)
    parser.add_argument("--ref", type=Path)
    options = parser.parse_args()
    libraries = filter(None, (torch, transformers, ctranslate2))
    print(", ".join(f"{each.__name__} {each.__version__}" for each in libraries), end="\n\n")
    show_head()
    timing = Timing(options.rounds, options.cpu_time)
    for threads in options.threads:
        torch.set_num_threads(threads)
        with tempfile.TemporaryDirectory() as name, torch.inference_mode():
            folder = Path(name)
            for shape in options.shapes:
                synthetic(shape, threads=threads, folder=folder, timing=timing)
            real(
                options.model,
                options.text,
                options.ref,
                threads=threads,
                folder=folder,
                timing=timing,
            )


if __name__ == "__main__":
    main()
