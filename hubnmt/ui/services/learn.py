"""Data for the Learn tab: tokens, positions, one layer, next token, beam search and training."""

from collections.abc import Callable
from typing import Any

from hubnmt.errors import InputError
from hubnmt.model.layers import sinusoidal_positions
from hubnmt.text.languages import main_tag
from hubnmt.translator import Translator
from hubnmt.ui.services import limits
from hubnmt.ui.services.decoding_steps import beam_tree, next_token
from hubnmt.ui.services.examples import examples
from hubnmt.ui.services.layer_values import layer_values, pack
from hubnmt.ui.services.registry import ModelRegistry
from hubnmt.ui.services.subject import Subject, page_state, read_subject
from hubnmt.ui.services.training_runs import Run, find_run, read_run
from hubnmt.ui.services.translate import translate_text

MAX_MERGED_BYTES = 400
"""Maximum size of a text whose merges are shown step by step."""

N_POSITIONS = 64
"""Number of positions shown: longer than most sentences."""

Compute = Callable[[Translator, Subject, Any], dict[str, Any]]
PANELS: dict[str, Compute] = {"layer": layer_values, "next": next_token, "beam": beam_tree}
"""What the panels on one sentence show, computed from what the visitor asks there."""


def merges(registry: ModelRegistry, text: str, model: str) -> dict[str, Any]:
    """Return the tokens of each word after every BPE merge, starting from bytes.

    The text is included because the page derives the writing direction from it.
    """
    if not isinstance(text, str):
        raise InputError(f"the text must be a string, not {type(text).__name__}")
    limits.check_characters(text, "the text")
    n_bytes = len(text.encode())
    if n_bytes > MAX_MERGED_BYTES:
        raise InputError(
            f"the text has {n_bytes:,} bytes; the limit is {MAX_MERGED_BYTES}; enter a short "
            "sentence"
        )
    tokenizer = registry.get(model).tokenizers.src
    words = [
        [list(map(_readable, step)) for step in tokenizer.merge_steps(word)]
        for word in tokenizer.pre_tokens(text)
    ]
    return {"words": words, "vocabulary": tokenizer.vocab_size, "text": text}


def positions(registry: ModelRegistry, model: str) -> dict[str, Any]:
    """Return the positional encodings."""
    d_model = registry.get(model).config.d_model
    return pack(sinusoidal_positions(0, N_POSITIONS, d_model))  # (T, D)


def find_subject(
    registry: ModelRegistry, model: str, translated: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return the state of the page, or one with the selected sentence translated by a model.

    An example takes its place if it is in another language. None if nothing was translated yet and
    the language has no example.
    """
    src_lang = main_tag(registry.get(model).config.src_lang)
    src = next(iter(examples(src_lang)), "")
    if translated:
        translator, subject = read_subject(registry, translated)
        if translated["model"] == model:
            return translated
        if main_tag(translator.config.src_lang) == src_lang:
            src = subject.src
    if not src:
        return None
    found = translate_text(registry, src, model).translation
    return page_state(src, model, found, registry.get(model))


def compute_panel(registry: ModelRegistry, name: str, value: Any) -> dict[str, Any]:
    """Compute what one of `PANELS` shows for the `subject` of its value and what is `asked`."""
    return PANELS[name](*read_subject(registry, value["subject"]), value.get("asked"))


def find_model_run(registry: ModelRegistry, model: str) -> Run | None:
    """Read the training run of a model; None if its folder contains none."""
    folder = find_run(registry.folder(model))
    return None if folder is None else read_run(folder)


def _readable(token: bytes) -> str:
    """Decode a token; incomplete UTF-8 is shown as hex bytes."""
    try:
        return token.decode("utf-8")
    except UnicodeDecodeError:
        return f"<{token.hex(' ').upper()}>"
