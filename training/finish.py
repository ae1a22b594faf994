"""From a finished run to a model folder others can use: tuned, measured, with its card.

    python -m training.finish RUN_DIR DEST --valid SRC,REF [--half]
        [--test SRC,REF --test-name NAME --test-dataset HUB_NAME]...

Takes a run folder, gives DEST. Decoding defaults are chosen on the validation set; each test set is
translated once, at the end, with what was chosen. Must not know the app.
"""

import argparse
import dataclasses
import itertools
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from hubnmt.card import CardFacts, TestResult, write_card
from hubnmt.checkpoint import load_model, read_json, save_model
from hubnmt.config import DecodingConfig, ModelConfig
from hubnmt.errors import ConfigError, HubNMTError, InputError
from hubnmt.metrics import score_corpus, sentence_chrf
from hubnmt.model import Transformer
from hubnmt.textfile import read_aligned, read_lines
from hubnmt.tokenizer import Tokenizer
from hubnmt.translator import Translator
from training.alignment import choose_head
from training.weights import describe_judged

log = logging.getLogger("training")

BEAM_SIZES = (1, 4, 5, 8, 12)
LENGTH_PENALTIES = (0.6, 0.8, 1.0, 1.2, 1.4)


@dataclasses.dataclass(frozen=True, slots=True)
class TestSet:
    """What is measured at the end, once."""

    __test__ = False  # the name is the field's word, not a pytest class

    files: tuple[Path, ...]
    """Source text and reference, line by line."""
    name: str = "test"
    """For the card, such as `Multi30k test_2016_flickr`."""
    dataset: str = ""
    """Where it comes from, best a name on the Hub; empty means the recipe's first data set."""


def tune_decoding(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> tuple[DecodingConfig, list[dict[str, float]]]:
    """Try beam sizes and length penalties on the validation set; the best BLEU wins.

    Returns:
        the chosen defaults, and every trial.
    """
    trials = []
    grid = [(1, 1.0), *itertools.product(BEAM_SIZES[1:], LENGTH_PENALTIES)]
    for beam_size, length_penalty in tqdm(grid, unit="setting", file=sys.stderr):
        translations = translator.translate(
            sources, beam_size=beam_size, length_penalty=length_penalty
        )
        scores = score_corpus([each.text for each in translations], references)
        trials.append(
            {"beam_size": beam_size, "length_penalty": length_penalty, "bleu": scores.bleu}
        )
        log.info("beam %d, length penalty %.1f: BLEU %.2f", beam_size, length_penalty, scores.bleu)
    best = max(trials, key=lambda trial: trial["bleu"])
    chosen = dataclasses.replace(
        translator.decoding,
        beam_size=int(best["beam_size"]),
        length_penalty=best["length_penalty"],
        n_best=1,
    )
    return chosen, trials


def store_alignment_head(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> dict[str, str]:
    """Note in the model's settings which head aligns best on the validation set.

    Returns:
        what the card says about it.
    """
    best = choose_head(translator, sources, references)
    if best is None:
        return {}
    translator.model.config = dataclasses.replace(
        translator.config, alignment_head=best.head, alignment_shift=best.shift
    )
    layer, head = best.head
    when = "one step after a word was chosen" if best.shift else "while a word is chosen"
    said = (
        f"layer {layer}, head {head} (from 0), {when}: agrees with {100 * best.accuracy:.1f} % of "
        f"{best.n_links:,} word links of the validation set (`training/alignment.py`)"
    )
    log.info("alignment head: %s", said)
    return {"alignment head": said}


def pieces_per_word(tokenizer: Tokenizer, texts: Sequence[str]) -> float:
    """Count tokens per white-space word."""
    n_pieces = sum(map(len, tokenizer.encode_batch(texts)))
    return n_pieces / max(1, sum(len(text.split()) for text in texts))


def pick_samples(
    sources: Sequence[str], references: Sequence[str], translations: Sequence[str], *, n: int = 5
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Pick good and bad examples by sentence chrF, away from the trivial top.

    Returns:
        `n` around the 90th percentile, and `n` around the 5th.
    """
    rows = list(zip(sources, references, translations, strict=True))
    rows.sort(key=lambda row: sentence_chrf(row[2], row[1]))
    high, low = int(0.9 * len(rows)), int(0.05 * len(rows))
    return rows[high : high + n], rows[low : low + n]


def training_facts(run_dir: Path) -> dict[str, Any]:
    """Collect what the run recorded about itself.

    Raises:
        InputError: if the run has no validation yet.
        ModelFolderError: if its records are torn.
    """
    machine, recipe = read_json(run_dir / "machine.json"), read_json(run_dir / "recipe.json")
    records = [json.loads(line) for line in read_lines(run_dir / "metrics.jsonl")]
    valid = [record for record in records if record["kind"] == "valid"]
    if not valid:
        raise InputError(f"{run_dir}: no validation in metrics.jsonl yet; let the run go on")
    best = max(valid, key=lambda record: float(record["bleu"]))
    return {
        "machine": machine["device"],
        "minutes until the best weights": round(best["minutes"], 1),
        "steps until the best weights": best["step"],
        "weights": describe_judged(recipe["run"]),
        "validation, greedy": f"BLEU {best['bleu']:.2f} (`{best['bleu_signature']}`), "
        f"loss {best['dev_loss']:.3f} nats per token",
        "seed": recipe["run"]["seed"],
        "versions": f"hubnmt {machine['hubnmt']}, torch {machine['torch']}",
    }


def recipe_lines(run_dir: Path) -> str:
    """Write the settings that decide the result as TOML."""
    recipe = read_json(run_dir / "recipe.json")
    lines = []
    for section in ("tokenizer", "model", "optimizer"):
        lines.append(f"[{section}]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in recipe[section].items()]
    return "\n".join(lines)


def facts_of_run(run_dir: Path, *, name: str, config: ModelConfig) -> CardFacts:
    """Collect what the card can say before anything is measured.

    Raises:
        InputError: if the run has no validation yet.
        ModelFolderError: if its records are torn.
    """
    recipe, cleaning = read_json(run_dir / "recipe.json"), read_json(run_dir / "cleaning.json")
    said = recipe["card"]
    dropped = ", ".join(f"{count:,} {why}" for why, count in cleaning["dropped"].items())
    return CardFacts(
        name=name,
        title=said["title"],
        config=config,
        license=said["license"],
        datasets=tuple(said["datasets"]),
        data=said["data"],
        data_license=said["data_license"],
        limits=said["limits"],
        bias=said.get("bias", ""),  # runs of 0.1.0 did not ask
        citation=said.get("citation", ""),
        recipe=recipe_lines(run_dir),
        cleaning=f"{cleaning['n_kept']:,} of {cleaning['n_read']:,} training pairs kept; "
        f"dropped: {dropped or 'none'}.",
        training=training_facts(run_dir),
    )


def finish(
    run_dir: Path,
    dest: Path,
    *,
    valid: Sequence[Path],
    tests: Sequence[TestSet] = (),
    half: bool = False,
) -> CardFacts:
    """Tune on the validation set, measure on the test sets, write the folder with its card.

    Raises:
        HubNMTError: if the run, a file or the place cannot be used; found before the long work.
    """
    if dest.exists() and not dest.is_dir():
        raise InputError(f"{dest} is a file; name a folder")
    stored = load_model(run_dir / "best")
    facts = facts_of_run(run_dir, name=dest.name, config=stored.model.config)
    held_out = [read_aligned(*test.files) for test in tests]
    chosen_on = read_aligned(*valid)
    if half:  # judge what is stored
        round_to_half(stored.model)
    translator = Translator(stored)
    aligned = store_alignment_head(translator, *chosen_on)
    decoding, trials = tune_decoding(translator, *chosen_on)
    kept_as = {"weights stored as": "float16" if half else "float32"}
    facts = dataclasses.replace(
        add_examples(facts, translator, *chosen_on, decoding=decoding),
        config=stored.model.config,
        training={**facts.training, **aligned, **kept_as},
    )
    for test, texts in zip(tests, held_out, strict=True):
        facts = add_test(facts, translator, *texts, test=test, decoding=decoding)
    dtype = torch.float16 if half else torch.float32
    final = dataclasses.replace(stored, decoding=decoding, card=write_card(facts), dtype=dtype)
    save_model(dest, final)
    (run_dir / "tuning.json").write_text(json.dumps(trials, indent=1), encoding="utf-8")
    return facts


def round_to_half(model: Transformer) -> None:
    """Round the weights to what float16 can hold."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half())


def add_examples(
    facts: CardFacts,
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    decoding: DecodingConfig,
) -> CardFacts:
    """Show what the model makes of the validation set, and what its tokenizers do."""
    texts = _translate(translator, sources, decoding)
    good, bad = pick_samples(sources, references, texts)
    config = translator.config
    pieces = {
        config.src_lang: pieces_per_word(translator.src_tokenizer, sources),
        config.tgt_lang: pieces_per_word(translator.tgt_tokenizer, references),
    }
    return dataclasses.replace(facts, good=good, bad=bad, pieces_per_word=pieces)


def add_test(
    facts: CardFacts,
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    test: TestSet,
    decoding: DecodingConfig,
) -> CardFacts:
    """Measure on one test set, once, with what was chosen."""
    texts = _translate(translator, sources, decoding)
    scores = score_corpus(texts, references, bootstrap=True)
    dataset = test.dataset or (facts.datasets[0] if facts.datasets else "local")
    result = TestResult(name=test.name, dataset=dataset, scores=scores, decoding=decoding)
    log.info("%s: BLEU %.2f  %s", test.name, scores.bleu, scores.bleu_signature)
    return dataclasses.replace(facts, results=[*facts.results, result])


def _translate(
    translator: Translator, sources: Sequence[str], decoding: DecodingConfig
) -> list[str]:
    beam_size, length_penalty = decoding.beam_size, decoding.length_penalty
    found = translator.translate(sources, beam_size=beam_size, length_penalty=length_penalty)
    return [each.text for each in found]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line.

    Returns:
        the exit status: 0 done, 2 the request was wrong.
    """
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    parser = argparse.ArgumentParser(prog="python -m training.finish", description=__doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("dest", type=Path)
    parser.add_argument("--valid", required=True, metavar="SRC,REF")
    parser.add_argument(
        "--test", action="append", default=[], metavar="SRC,REF", help="may be given several times"
    )
    parser.add_argument("--test-name", action="append", default=[], metavar="NAME")
    parser.add_argument("--test-dataset", action="append", default=[], metavar="HUB_NAME")
    parser.add_argument("--half", action="store_true", help="store weights as float16")
    options = parser.parse_args(arguments)
    try:
        finish(
            options.run_dir,
            options.dest,
            valid=_pair(options.valid),
            tests=_test_sets(options.test, options.test_name, options.test_dataset),
            half=options.half,
        )
    except (HubNMTError, OSError, KeyError, ValueError) as error:
        log.error("error: %s", error)
        return 2
    return 0


def _test_sets(pairs: list[str], names: list[str], datasets: list[str]) -> list[TestSet]:
    """Put together what was given for each test set, in the order it was given.

    Raises:
        ConfigError: if several test sets have no names of their own.
    """
    for option, values in (("--test-name", names), ("--test-dataset", datasets)):
        if len(values) > len(pairs) or (len(pairs) > 1 and 0 < len(values) < len(pairs)):
            raise ConfigError(f"{len(pairs)} --test and {len(values)} {option}: give one each")
    if len(pairs) > 1 and not names:
        raise ConfigError(f"{len(pairs)} --test need a --test-name each")
    columns = itertools.zip_longest(map(_pair, pairs), names, datasets)
    return [TestSet(files, name or "test", dataset or "") for files, name, dataset in columns]


def _pair(text: str) -> tuple[Path, ...]:
    paths = tuple(Path(part) for part in text.split(","))
    if len(paths) != 2:
        raise ConfigError(f"{text!r} must be SRC,REF: two files")
    return paths


if __name__ == "__main__":
    sys.exit(main())
