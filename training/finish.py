"""Turn a finished run into a model folder to publish: tune the decoding, evaluate, write the card.

    python -m training.finish RUN_DIR DEST

The validation and test sets are those of the run's recipe. Decoding defaults are tuned on the
validation set; each test set is translated once, with the tuned settings. The last weights
(`--weights last`) may be better with beam search than the best validated ones.
"""

import dataclasses
import itertools
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import torch
from tqdm.contrib.logging import logging_redirect_tqdm

from hubnmt.checkpoint.card import write_card
from hubnmt.checkpoint.description import check_place
from hubnmt.checkpoint.files import read_json
from hubnmt.checkpoint.folder import StoredModel, load_model, save_model
from hubnmt.config import DecodingConfig
from hubnmt.errors import InputError
from hubnmt.text.metrics import score_corpus
from hubnmt.translator import Translator
from training.command import make_parser, progress_bar, run_command
from training.config.recipe import load_recipe
from training.data.corpora import name_tests, read_test, read_valid
from training.distributed import pick_device
from training.release.alignment_head import choose_head
from training.release.measure import add_examples, add_test
from training.release.publish import add_records, push_command
from training.run.card_facts import facts_of_run
from training.run.run_dir import Weights
from training.run.validation import HeldOutPairs, decode_pairs, encode_pairs

log = logging.getLogger("training")

BEAM_SIZES = (1, 4, 8)
LENGTH_PENALTIES = (0.6, 1.0, 1.4, 2.0)
NOISE = 0.1
"""BLEU that a wider beam must gain; far below the resolution of the validation set."""


def tune_decoding(
    translator: Translator, pairs: HeldOutPairs
) -> tuple[DecodingConfig, list[dict[str, float]]]:
    """Search beam size and length penalty by BLEU on the validation set.

    Of the settings within `NOISE` of the best the smallest beam is chosen, because a wider one
    makes every translation slower. All trials are returned, too.
    """
    trials: dict[DecodingConfig, float] = {}
    grid = [(1, 1.0), *itertools.product(BEAM_SIZES[1:], LENGTH_PENALTIES)]
    with logging_redirect_tqdm():
        for beam_size, length_penalty in progress_bar("tuning", iterable=grid, unit=" settings"):
            decoding = dataclasses.replace(
                translator.decoding, beam_size=beam_size, length_penalty=length_penalty, n_best=1
            )
            bleu = score_corpus(decode_pairs(translator, pairs, decoding), pairs.references).bleu
            trials[decoding] = bleu
            log.info("beam %d, length penalty %.1f: BLEU %.2f", beam_size, length_penalty, bleu)
    good = [trial for trial, bleu in trials.items() if bleu >= max(trials.values()) - NOISE]
    chosen = min(good, key=lambda trial: (trial.beam_size, -trials[trial]))
    records = [
        {"beam_size": trial.beam_size, "length_penalty": trial.length_penalty, "bleu": bleu}
        for trial, bleu in trials.items()
    ]
    return chosen, records


def store_alignment_head(
    stored: StoredModel, translator: Translator, pairs: HeldOutPairs
) -> dict[str, str]:
    """Store the head that aligns best in the model's config; return the entry for its card."""
    best = choose_head(translator, pairs)
    if best is None:
        return {}
    stored.model.config = dataclasses.replace(
        stored.model.config, alignment_head=best.head, alignment_shift=best.shift
    )
    layer, head = best.head
    when = "one step after a word was generated" if best.shift else "while a word is generated"
    entry = (
        f"layer {layer}, head {head} (from 0), {when}: agrees with {100 * best.accuracy:.1f} % of "
        f"{best.n_links:,} word links of the validation set (`training/release/alignment_head.py`)"
    )
    log.info("alignment head: %s", entry)
    return {"alignment head": entry}


def finish(
    run_dir: Path,
    dest: Path,
    *,
    overrides: Sequence[str] = (),
    half: bool = False,
    weights: Weights = "best",
    device: str = "auto",
) -> None:
    """Tune on the validation set, evaluate on the test sets, write the model folder and its card.

    Raises:
        HubNMTError: if the run, a file or the destination cannot be used; checked first.
    """
    # 1. Read all that is needed, so that a mistake shows before the work.
    check_place(dest)
    where = str(pick_device(device, setting="--device"))
    data = load_recipe(read_json(run_dir / "recipe.json"), overrides).data
    stored = load_model(run_dir / weights)
    facts = facts_of_run(run_dir, name=dest.name, config=stored.model.config, weights=weights)
    tests = [(name, test, read_test(test, data)) for name, test in name_tests(data)]
    valid = list(read_valid(data))
    if not valid:
        raise InputError(f"{run_dir}: its validation set is empty: --set data.valid=SRC,REF")
    # 2. Choose alignment head, beam size and length penalty, with the weights as stored.
    dtype = torch.float16 if half else torch.float32
    with torch.no_grad():
        for parameter in stored.model.parameters():
            parameter.copy_(parameter.to(dtype))
    translator = Translator(stored, device=where)
    pairs = encode_pairs(translator, *zip(*valid, strict=True))
    aligned = store_alignment_head(stored, translator, pairs)
    translator = Translator(stored, device=where)  # with the alignment head
    decoding, trials = tune_decoding(translator, pairs)
    # 3. Measure, once.
    facts = add_examples(facts, translator, pairs, decoding=decoding)
    for name, test, sides in tests:
        dataset = None if test.files else test.dataset
        facts = add_test(facts, translator, sides, name=name, dataset=dataset, decoding=decoding)
    # 4. Write the folder.
    stored_as = {"weights stored as": "float16" if half else "float32"}
    training = {**facts.training, **aligned, **stored_as}
    facts = dataclasses.replace(facts, config=stored.model.config, training=training)
    final = dataclasses.replace(stored, decoding=decoding, card=write_card(facts), dtype=dtype)
    save_model(dest, final)
    add_records(run_dir, dest)
    (run_dir / "tuning.json").write_text(json.dumps(trials, indent=1), encoding="utf-8")
    log.info("the model is in %s; to publish it:", dest)
    log.info("  %s", push_command(dest, name=dest.name))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status, see `run_command`."""
    parser = make_parser("finish", __doc__)
    parser.add_argument("run_dir", type=Path)
    parser.add_argument("dest", type=Path)
    parser.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="override a setting of the recipe, such as data.test",
    )
    parser.add_argument("--weights", choices=get_args(Weights), default="best", help="of the run")
    parser.add_argument("--half", action="store_true", help="store weights as float16")
    parser.add_argument(
        "--device", default="auto", help="auto (a GPU if there is one), cpu, cuda, cuda:1, ..."
    )
    options = parser.parse_args(arguments)
    return run_command(lambda: finish(**vars(options)))


if __name__ == "__main__":
    sys.exit(main())
