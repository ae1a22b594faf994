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
    from hubnmt.checkpoint.folder import StoredModel

ModelArgument = Annotated[str, Argument(metavar="MODEL", help="bundled name, folder, or user/name")]


def inspect(
    model: ModelArgument,
    text: Annotated[str | None, Option(help="sentence to translate")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the configuration of a model and test it, for bug reports."""
    from hubnmt.hub.pull import locate_model

    translator = hubnmt.Translator.from_pretrained(model)
    place = {
        "name": model,
        "folder": str(locate_model(model)[0]),
        "weights": str(translator.stored_dtype).removeprefix("torch."),
    }
    if translator.commit:
        place["commit"] = translator.commit
    facts = {"model": place, **inspect_model(translator, text)}
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
        return
    shown = facts["translation"]
    del shown["score"]  # meaningful only for ranking
    shown["token probability"] = f"{shown.pop('token_probability'):.0%}"
    for title, values in facts.items():
        print(title)
        for key, value in values.items():
            print(f"  {key}: {value}")


def inspect_model(
    translator: "hubnmt.Translator", text: str | None = None
) -> dict[str, dict[str, Any]]:
    """Return versions, config, parameters per module, a tokenizer round trip and a translation."""
    import torch

    from hubnmt.text.languages import example_sentence
    from hubnmt.text.tokenizer import ROUND_TRIP

    config, model = translator.config, translator.model
    text = text or example_sentence(config.src_lang)
    translation = translator.translate(text)
    parts = {
        name: sum(parameter.numel() for parameter in part.parameters())
        for name, part in model.named_children()
        if any(True for _ in part.parameters())
    }
    if config.tie_output:
        parts["output_proj"] = 0
    if config.share_embeddings:
        parts["tgt_embedding"] = 0
    decoded = translator.tokenizers.src.decode(translator.tokenizers.src.encode(ROUND_TRIP))
    pieces = {
        "source": (len(translation.src_tokens) - 1, text),
        "translation": (len(translation.tgt_tokens) - 1, translation.text),
    }
    return {
        "versions": {
            "hubnmt": hubnmt.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
        },
        "config": config.to_dict(),
        "decoding": translator.decoding.to_dict(),
        "parameters": {**parts, "total": config.n_parameters},
        "tokenizer": {
            "round trip": "exact" if decoded == ROUND_TRIP else f"BROKEN: {decoded!r}",
            **{
                f"pieces per word, {side}": round(n_pieces / max(len(words.split()), 1), 2)
                for side, (n_pieces, words) in pieces.items()
            },
        },
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
    from hubnmt.checkpoint.folder import load_model
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
        _convert(stored, source, folder, weight_type=to)
    print(folder)


def _convert(stored: "StoredModel", folder: Path, new: Path, *, weight_type: str) -> None:
    """Write a model folder with another type of weights, and the record of its training."""
    import torch

    from hubnmt.checkpoint.files import MAX_RECORD_MIB, METRICS, SAMPLES
    from hubnmt.checkpoint.folder import save_model

    card = re.sub(r"(?m)^(- weights stored as: ).*$", rf"\g<1>{weight_type}", stored.card)
    save_model(new, dataclasses.replace(stored, dtype=getattr(torch, weight_type), card=card))
    for name in (METRICS, SAMPLES):
        record = folder / name
        if record.is_file() and record.stat().st_size <= MAX_RECORD_MIB * 2**20:
            shutil.copyfile(record, new / name)
