"""From texts to what a run learns from: clean pairs of ids, and the tokenizers that made them.

Takes a recipe, gives a `Corpus`. Must not know the model. The vocabulary is learned on the training
split only, once per run: a run that is resumed loads its own.
"""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path

from hubnmt.checkpoint import write_json
from hubnmt.errors import InputError
from hubnmt.tokenizer import Tokenizer
from training.batches import Pair
from training.config import RunConfig
from training.corpora import CleaningReport, TextPair, clean, drop_long, load_split

log = logging.getLogger("training")


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Corpus:
    """What the run learns from and chooses on."""

    train: list[Pair]
    """Ids of the kept training pairs."""
    valid: list[TextPair]
    """Validation texts."""
    report: CleaningReport
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer

    def save(self, folder: Path) -> None:
        """Keep the tokenizers and the cleaning report in the run's folder."""
        if self.src_tokenizer is self.tgt_tokenizer:
            self.src_tokenizer.save(folder / "tokenizer.json")
        else:
            self.src_tokenizer.save(folder / "tokenizer_src.json")
            self.tgt_tokenizer.save(folder / "tokenizer_tgt.json")
        write_json(folder / "cleaning.json", self.report.to_dict())


def prepare_corpus(config: RunConfig, resumed: Path | None) -> Corpus:
    """Read, clean, learn or load the vocabulary, encode.

    Args:
        config: the recipe.
        resumed: run folder whose tokenizers to use; None, or a folder without, learns new ones.

    Raises:
        InputError: if nothing is left to train on, or a file cannot be used.
    """
    texts, report = clean(load_split(config.data, "train"), config.data)
    valid = [(src.strip(), tgt.strip()) for src, tgt in load_split(config.data, "valid")]
    if not texts or not valid:
        raise InputError(f"nothing to train on: {report}; {len(valid)} validation pairs")
    src_tokenizer, tgt_tokenizer = _tokenizers(config, resumed, texts)
    src_ids = src_tokenizer.encode_batch([src for src, _ in texts])
    tgt_ids = tgt_tokenizer.encode_batch([tgt for _, tgt in texts])
    pairs = drop_long(
        zip(src_ids, tgt_ids, strict=True), max_tokens=config.data.max_tokens, report=report
    )
    if not pairs:
        raise InputError(f"nothing to train on: {report}")
    log.info("data: %s", report)
    return Corpus(
        train=list(pairs),
        valid=valid,
        report=report,
        src_tokenizer=src_tokenizer,
        tgt_tokenizer=tgt_tokenizer,
    )


def _tokenizers(
    config: RunConfig, folder: Path | None, texts: Sequence[TextPair]
) -> tuple[Tokenizer, Tokenizer]:
    vocab_size = config.tokenizer.vocab_size
    names = (
        ["tokenizer.json"] if config.tokenizer.joint else [f"tokenizer_{s}.json" for s in _SIDES]
    )
    if folder is not None and all((folder / name).exists() for name in names):
        loaded = [Tokenizer.load(folder / name) for name in names]
        return loaded[0], loaded[-1]
    if config.tokenizer.joint:
        joint = Tokenizer.train((side for pair in texts for side in pair), vocab_size)
        return joint, joint
    src, tgt = (Tokenizer.train((pair[side] for pair in texts), vocab_size) for side in (0, 1))
    return src, tgt


_SIDES = ("src", "tgt")
