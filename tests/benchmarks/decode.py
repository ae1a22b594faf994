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
import itertools
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import ctranslate2
import torch
from systems import SHAPES, Job, make_tokenizers, marian_config, take_turns

from hubnmt.checkpoint.folder import StoredModel, load_model
from hubnmt.config import DEFAULT_BATCH_TOKENS, DecodingConfig
from hubnmt.decoding.search import run_to_end
from hubnmt.hub.pull import locate_model
from hubnmt.inference.ctranslate2_export import export_ctranslate2
from hubnmt.inference.engine import TorchEngine
from hubnmt.model.transformer import Transformer
from hubnmt.text.metrics import score_corpus
from hubnmt.text.textfile import read_aligned
from hubnmt.translator import Translator

try:  # a peer, no need of ours
    import transformers
except ImportError:
    transformers = None

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
class Bench:
    """How jobs are timed, and the table of their times."""

    threads: int
    n_rounds: int | None
    is_cpu_time: bool

    def show(self, work: str, jobs: dict[str, Job], *, n_sentences: int, n_tokens: int) -> None:
        """Time the jobs and print one row: latency in ms for one sentence, else throughput."""
        clock = time.process_time if self.is_cpu_time else time.perf_counter
        n_rounds = self.n_rounds or (9 if n_sentences == 1 else 3)
        choose = min if self.is_cpu_time else statistics.median
        seconds = {k: choose(each) for k, each in take_turns(jobs, n_rounds, clock).items()}
        cells = []
        for name in COLUMNS:
            cell = ""
            if name in seconds:
                each = seconds[name]
                cell = f"{1e3 * each:.1f}" if n_sentences == 1 else f"{n_tokens / each:,.0f}"
                cell += f" ({each / seconds['hubnmt']:.2f})" if name != "hubnmt" else ""
            cells.append(cell)
        unit = "ms" if n_sentences == 1 else "tokens/s"
        print(f"| {self.threads} | {work} | {unit} | {' | '.join(cells)} |", flush=True)


def label(beam_size: int) -> str:
    return "greedy" if beam_size == 1 else f"beam {beam_size}"


def load_peers(stored: StoredModel, threads: int) -> dict[str, ctranslate2.Translator]:
    with tempfile.TemporaryDirectory() as folder:
        export_ctranslate2(stored, Path(folder) / "exported")
        return {
            f"ctranslate2 {kind}": ctranslate2.Translator(
                f"{folder}/exported", device="cpu", compute_type=kind, intra_threads=threads
            )
            for kind in ("float32", "int8")
        }


# --- random weights and sentences ----------------------------------------------------------------


def compare_shape(name: str, bench: Bench) -> None:
    shape = SHAPES[name]
    torch.manual_seed(1)
    model, tokenizers = Transformer(shape).eval(), make_tokenizers(shape.src_vocab_size)
    engines = {
        "hubnmt": TorchEngine(model, tokenizers),
        "hubnmt bf16": TorchEngine(copy.deepcopy(model).bfloat16(), tokenizers),
    }
    stored = StoredModel(model=model, tokenizers=tokenizers, decoding=DecodingConfig())
    peers = load_peers(stored, bench.threads)
    marian = None
    if transformers:
        config = marian_config(shape, forced_eos_token_id=None)
        marian = transformers.MarianMTModel(config).eval()
    length = N_TOKENS - 1  # and the end of the sentence

    def search(engine: TorchEngine, rows: list[list[int]], beam_size: int) -> object:
        decoding = DecodingConfig(beam_size=beam_size, max_new_tokens=length)
        return run_to_end(engine.search(rows, decoding, max_batch_tokens=10**6))

    for n_sentences, beam_size in itertools.product((1, 64), (1, 5)):
        ids = torch.randint(3, shape.src_vocab_size, (n_sentences, length))
        named = [[tokenizers.src.pieces[i] for i in row] for row in ids.tolist()]
        options = {
            "beam_size": beam_size,
            "min_decoding_length": length,
            "max_decoding_length": length,
        }
        jobs: dict[str, Job] = {
            **{k: partial(search, each, ids.tolist(), beam_size) for k, each in engines.items()},
            **{k: partial(each.translate_batch, named, **options) for k, each in peers.items()},
        }
        if marian:
            lengths = {"min_new_tokens": N_TOKENS, "max_new_tokens": N_TOKENS}
            jobs["transformers"] = partial(
                marian.generate, ids, num_beams=beam_size, do_sample=False, **lengths
            )
        work = f"{name}, {n_sentences} sentence{'s' * (n_sentences > 1)}, {label(beam_size)}"
        bench.show(work, jobs, n_sentences=n_sentences, n_tokens=n_sentences * N_TOKENS)


# --- a real model and text -----------------------------------------------------------------------


def compare_text(model: str, files: list[Path], bench: Bench) -> None:
    """Translate the first file by every system; a second one has the references."""
    stored = load_model(locate_model(model)[0])
    src, tgt = stored.tokenizers
    peers = load_peers(stored, bench.threads)
    exact, half = Translator(stored), Translator(stored, dtype="bfloat16")
    fast = Translator(stored, engine="ctranslate2")
    small = Translator(stored, engine="ctranslate2", dtype="int8")
    lines, *references = read_aligned(*files)
    named = [[src.pieces[i] for i in row] for row in src.encode_batch(lines)]
    ids = {piece: i for i, piece in enumerate(tgt.pieces)}

    def ours(translator: Translator, beam_size: int, *, guard: bool = True) -> list[str]:
        return [t.text for t in translator.translate(lines, beam_size=beam_size, guard=guard)]

    def theirs(peer: ctranslate2.Translator, beam_size: int) -> list[str]:
        answers = peer.translate_batch(
            named,
            beam_size=beam_size,
            length_penalty=stored.decoding.length_penalty,
            max_batch_size=DEFAULT_BATCH_TOKENS // beam_size,
            batch_type="tokens",
        )
        return [tgt.decode([ids[piece] for piece in each.hypotheses[0]]) for each in answers]

    for beam_size in (1, 4):
        jobs = {
            "hubnmt": partial(ours, exact, beam_size, guard=False),
            "hubnmt bf16": partial(ours, half, beam_size, guard=False),
            "hubnmt as used": partial(ours, exact, beam_size),
            "hubnmt as used, ctranslate2": partial(ours, fast, beam_size),
            "hubnmt as used, ctranslate2 int8": partial(ours, small, beam_size),
            **{name: partial(theirs, each, beam_size) for name, each in peers.items()},
        }
        texts = {name: job() for name, job in jobs.items()}
        mine = texts["hubnmt"]
        n_tokens = sum(len(row) + 1 for row in tgt.encode_batch(mine))
        work = f"{files[0].name}, {len(lines):,} lines, {label(beam_size)}"
        bench.show(work, dict(jobs), n_sentences=len(lines), n_tokens=n_tokens)
        for name, other in texts.items():
            same = sum(a == b for a, b in zip(mine, other, strict=True))
            note = f"{name}, {label(beam_size)}: {100 * same / len(lines):.1f} % same lines"
            if references:
                note += f", BLEU {score_corpus(other, references[0]).bleu:.2f}"
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
    print("| threads | work | unit | " + " | ".join(COLUMNS) + " |")
    print("|---|---|---" + "|---:" * len(COLUMNS) + "|")
    for threads in options.threads:
        torch.set_num_threads(threads)
        bench = Bench(threads, options.rounds, options.cpu_time)
        with torch.inference_mode():
            for name in options.shapes:
                compare_shape(name, bench)
            compare_text(options.model, [options.text, *filter(None, [options.ref])], bench)


if __name__ == "__main__":
    main()
