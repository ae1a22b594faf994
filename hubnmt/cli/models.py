"""`hubnmt inspect` and `hubnmt export`: what a model is, and the same weights in another form."""

import dataclasses
import json
import platform
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Argument, Option

import hubnmt
from hubnmt.cli.options import AsJson
from hubnmt.errors import InputError

if TYPE_CHECKING:
    from hubnmt.types import Translation

ModelArgument = Annotated[str, Argument(metavar="MODEL", help="bundled name, folder, or user/name")]


def inspect(
    model: ModelArgument,
    text: Annotated[str | None, Option(help="sentence to translate")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the configuration of a model and test it, for bug reports."""
    import torch

    from hubnmt.hub.pull import locate_model
    from hubnmt.text.languages import example_sentence

    translator = hubnmt.Translator.from_pretrained(model)
    config = translator.config
    text = text or example_sentence(config.src_lang)
    translation = translator.translate(text)
    facts: dict[str, dict[str, Any]] = {
        "model": {
            "name": model,
            "folder": str(locate_model(model)[0]),
            "weights": str(translator.stored_dtype).removeprefix("torch."),
            **({"commit": translator.commit} if translator.commit else {}),
        },
        "versions": {
            "hubnmt": hubnmt.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "config": config.to_dict(),
        "decoding": translator.decoding.to_dict(),
        "parameters": {**_count_parameters(translator), "total": config.n_parameters},
        "tokenizer": _test_tokenizer(translator, translation),
        "translation": {
            "src": text,
            "text": translation.text,
            "score": translation.score,
            "token_probability": round(translation.token_probability, 4),
            "tgt_tokens": list(translation.tgt_tokens),
            "tgt_log_probs": [round(value, 3) for value in translation.tgt_log_probs],
            "warnings": list(translation.warnings),
        },
    }
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
        return
    for title, values in facts.items():
        print(title)
        for key, value in values.items():
            print(f"  {key}: {value}")


def _count_parameters(translator: "hubnmt.Translator") -> dict[str, int]:
    """Count the parameters of each module; tied ones belong to the first."""
    model = translator.model
    names = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    counts = dict.fromkeys((name.partition(".")[0] for name in names), 0)
    for name, parameter in model.named_parameters():
        counts[name.partition(".")[0]] += parameter.numel()
    return counts


def _test_tokenizer(
    translator: "hubnmt.Translator", translation: "Translation"
) -> dict[str, str | float]:
    """Return a round trip, and the pieces per word of a source and its translation."""
    from hubnmt.text.tokenizer import ROUND_TRIP

    tokenizer = translator.tokenizers.src
    decoded = tokenizer.decode(tokenizer.encode(ROUND_TRIP))
    n_src, n_tgt = len(translation.src_tokens) - 1, len(translation.tgt_tokens) - 1
    n_src_words, n_tgt_words = len(translation.src.split()), len(translation.text.split())
    return {
        "round trip": "exact" if decoded == ROUND_TRIP else f"BROKEN: {decoded!r}",
        "pieces per word, source": round(n_src / max(n_src_words, 1), 2),
        "pieces per word, translation": round(n_tgt / max(n_tgt_words, 1), 2),
    }


def export(
    model: ModelArgument,
    folder: Annotated[Path, Argument(metavar="DIR", help="output folder")],
    *,
    to: Annotated[
        Literal["ctranslate2", "float16", "int8"],
        Option(help="a folder for CTranslate2, or a hubnmt folder with smaller weights"),
    ],
    quantization: Annotated[
        str | None, Option(help="CTranslate2 type such as int8 (default: float32)")
    ] = None,
) -> None:
    """Convert a model for CTranslate2, or to another type of weights."""
    import torch

    from hubnmt.checkpoint.files import MAX_RECORD_MIB, METRICS, SAMPLES
    from hubnmt.checkpoint.folder import load_model, save_model
    from hubnmt.hub.pull import locate_model
    from hubnmt.inference.ctranslate2_export import export_ctranslate2

    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [1]):
        raise InputError(f"{folder} exists and is not empty; name another folder")
    if quantization and to != "ctranslate2":
        raise InputError("--quantization is for --to ctranslate2 only")
    source, _ = locate_model(model)
    stored = load_model(source)
    if to == "ctranslate2":
        export_ctranslate2(stored, folder, quantization=quantization)
    else:
        card = re.sub(r"(?m)^(- weights stored as: ).*$", rf"\g<1>{to}", stored.card)
        save_model(folder, dataclasses.replace(stored, dtype=getattr(torch, to), card=card))
        for record in (source / METRICS, source / SAMPLES):
            if record.is_file() and record.stat().st_size <= MAX_RECORD_MIB * 2**20:
                shutil.copyfile(record, folder / record.name)
    print(folder)
