"""`hubnmt inspect`: show versions, configuration, parameters and a test translation of a model."""

import argparse
import json
import platform
from typing import Any

import torch

import hubnmt
from hubnmt.hub.pull import find_model
from hubnmt.text.languages import example_sentence
from hubnmt.text.tokenizer import ROUND_TRIP
from hubnmt.translator import Translator


def run_inspect(options: argparse.Namespace) -> None:
    """Print the description of a model, for bug reports."""
    translator = Translator.from_pretrained(options.model)
    place = {
        "name": options.model,
        "folder": str(find_model(options.model)),
        "weights": str(translator.stored_dtype).removeprefix("torch."),
    }
    if translator.commit:
        place["commit"] = translator.commit
    facts = {"model": place, **inspect_model(translator, options.text)}
    if options.json:
        print(json.dumps(facts, ensure_ascii=False))
        return
    shown = facts["translation"]
    del shown["score"]  # meaningful only for ranking
    shown["token probability"] = f"{shown.pop('token_probability'):.0%}"
    for title, values in facts.items():
        print(title)
        for key, value in values.items():
            print(f"  {key}: {value}")


def inspect_model(translator: Translator, text: str | None = None) -> dict[str, dict[str, Any]]:
    """Return versions, config, parameters per module, a tokenizer round trip and a translation."""
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
        "source": len(translation.src_tokens) - 1,
        "translation": len(translation.tgt_tokens) - 1,
    }
    words = {"source": len(text.split()), "translation": len(translation.text.split())}
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
                f"pieces per word, {side}": round(pieces[side] / max(words[side], 1), 2)
                for side in pieces
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
