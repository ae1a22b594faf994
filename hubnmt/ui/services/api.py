"""Named API endpoints for clients and agents; their docstrings are shown under "Use via API"."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from hubnmt.attention.explorer import check_drawable
from hubnmt.attention.maps import Attention
from hubnmt.errors import InputError
from hubnmt.text.languages import language_name
from hubnmt.translator import Translator
from hubnmt.types import Candidate, Translation
from hubnmt.ui.services import decoding_controls, limits
from hubnmt.ui.services.files import translate_file
from hubnmt.ui.services.inspection import attend_candidate
from hubnmt.ui.services.registry import ModelRegistry, find_model
from hubnmt.ui.services.translate import TimedTranslation, translate_text
from hubnmt.ui.services.turns import TURNS

MAX_SCORED_TOKENS = 1_000
"""Maximum tokens per side of a scored pair: bounds the memory of the logits."""

UNITS: dict[str, Callable[[Attention], Attention]] = {
    "pieces": lambda maps: maps,
    "characters": Attention.by_character,
    "words": Attention.by_word,
}
"""Units that tokens can be merged into."""


@dataclasses.dataclass(frozen=True, slots=True)
class Endpoints:
    """The named endpoints; every parameter except the texts has a default."""

    registry: ModelRegistry

    def translate(
        self,
        text: str,
        model: str = "",
        beam_size: int | None = None,
        length_penalty: float | None = None,
        n_best: int | None = None,
        sample: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        no_repeat_ngram_size: int | None = None,
        repetition_penalty: float | None = None,
        max_new_tokens: int | None = None,
        prefix: str | None = None,
        src_lang: str = "",
        tgt_lang: str = "",
    ) -> tuple[str, dict[str, Any]]:
        """Translate a text with a Transformer model trained from scratch.

        Options that are null use the model's defaults.

        Args:
            text: text in the model's source language; line breaks are preserved.
            model: a name from /models; empty selects the first.
            beam_size: number of hypotheses in beam search, 1 (greedy) to 256.
            length_penalty: above 1 favours longer translations, below 1 shorter ones.
            n_best: number of translations to return, at most beam_size; when sampling, of samples.
            sample: use random sampling instead of beam search.
            temperature: sampling temperature; below 1 favours probable tokens.
            top_k: sample from the k most probable tokens; 0 disables the limit.
            top_p: sample from the smallest set of tokens with this probability; 1 disables it.
            seed: sampling seed; the same seed reproduces the same text.
            no_repeat_ngram_size: forbid repeated n-grams of this size; 0 allows them.
            repetition_penalty: above 1 penalizes tokens that were already generated.
            max_new_tokens: maximum tokens per sentence, excluding the prefix.
            prefix: text that the translation must start with.
            src_lang: language code such as de; with tgt_lang, selects a model in place of `model`.
            tgt_lang: language code such as en.

        Returns:
            The translation; and model, src_lang, tgt_lang, text, token_probability (mean, 0 to 1),
            to_check (sentences that are probably wrong), score (used to rank n_best: the
            log-probability divided by the length to the power of length_penalty), n_best,
            sentences, alignment of words, tokens, their log-probabilities, warnings, seconds.
        """
        options = decoding_controls.given_options(locals())
        if src_lang or tgt_lang:
            if model:
                raise InputError("give a model, or src_lang and tgt_lang, not both")
            model = find_model(self.registry, src_lang, tgt_lang)
        timed = translate_text(self.registry, text, model, prefix=prefix or "", **options)
        translator = self.registry.get(model)
        details = {
            "model": self.registry.name(model),
            "src_lang": translator.config.src_lang,
            "tgt_lang": translator.config.tgt_lang,
            "alignment": _align(translator, timed.translation),
        }
        return timed.translation.text, details | _text_details(timed)

    def attention(
        self,
        text: str,
        translation: str = "",
        model: str = "",
        layer: int = 0,
        head: int = 0,
        unit: str = "pieces",
    ) -> dict[str, Any]:
        """Return the cross-attention weights of each target token over the source tokens.

        Attention weights do not necessarily reflect the importance of a token.

        Args:
            text: one source sentence.
            translation: target text; empty uses the model's own translation.
            model: a name from /models; empty selects the first.
            layer: decoder layer, counted from 1; 0 is the average of all.
            head: attention head, counted from 1; 0 is the average of all.
            unit: subword `pieces`, or these merged into `characters` or `words`.

        Returns:
            src_tokens, tgt_tokens, weights (one row per target token, which sums to 1), and links
            (the word alignment).
        """
        if not isinstance(unit, str) or unit not in UNITS:
            raise InputError(f"unit = {unit!r} must be {', '.join(UNITS)}")
        if translation == "":
            translation = translate_text(self.registry, text, model).translation.text
        else:
            limits.check_text(text)
            limits.check_text(translation)
        translator = self.registry.get(model)
        check_drawable(*_count_tokens(translator, text, translation), translator.config)
        with TURNS.turn():
            whole = translator.attend(text, translation)
        maps = UNITS[unit](whole)
        cross = np.asarray(maps.cross, dtype=np.float32)  # (L, H, T, S)
        cross = _pick(cross, layer, "layer")  # (H, T, S)
        weights = _pick(cross, head, "head")  # (T, S)
        return {
            "src_tokens": list(maps.src_tokens),
            "tgt_tokens": list(maps.tgt_tokens),
            "weights": [[round(float(w), 4) for w in row] for row in weights],
            "links": _list_links(whole),
        }

    def score(self, src: str, tgt: str, model: str = "") -> dict[str, Any]:
        """Score a given translation by its log-probability under the model.

        Args:
            src: one source sentence.
            tgt: its translation, from any origin.
            model: a name from /models; empty selects the first.

        Returns:
            log_prob (natural, summed), perplexity, tgt_tokens, and tgt_log_probs, one per token.
        """
        translator = self.registry.get(model)
        limits.check_text(src)
        limits.check_text(tgt)
        n_tokens = max(_count_tokens(translator, src, tgt))
        if n_tokens > MAX_SCORED_TOKENS:
            raise InputError(
                f"too long to score: {n_tokens:,} tokens; the limit is {MAX_SCORED_TOKENS:,}; "
                "score one sentence at a time"
            )
        with TURNS.turn():
            return dataclasses.asdict(translator.score(src, tgt))

    def translate_file(
        self,
        file: str,
        model: str = "",
        column: str = "",
        has_header: bool = True,
        beam_size: float | None = None,
        length_penalty: float | None = None,
    ) -> Iterator[tuple[str | None, dict[str, Any]]]:
        """Translate one column of a txt, tsv or csv file.

        Progress is reported in the details until the last message, which contains the result.

        Args:
            file: the file, in UTF-8, up to 5 MB and 5,000 lines.
            model: a name from /models; empty selects the first.
            column: column to translate; may be empty if there is only one.
            has_header: whether the first line of a tsv or csv file contains column names.
            beam_size: number of hypotheses, 1 (greedy) to 256; null uses the model's default.
            length_penalty: above 1 favours longer translations; null uses the model's default.

        Returns:
            The file with a column `translation`; and rows, seconds and warnings.
        """
        options = decoding_controls.given_options(locals())
        for job in translate_file(
            self.registry, file, model, source=column, has_header=has_header, **options
        ):
            details = {"done": job.n_done, "rows": job.n_rows, "seconds": round(job.seconds, 3)}
            if job.path is None:
                yield None, details
            else:
                warnings = [row._asdict() for row in job.warnings]
                counted = {"rows_with_warnings": len(warnings), "warnings": warnings}
                yield str(job.path), details | counted

    def models(self) -> list[dict[str, Any]]:
        """List the models available to the other endpoints.

        Returns:
            For each model its name, its languages (codes and English names), and whether it is the
            page's default (`opening`).
        """
        return [
            {
                "name": name,
                "opening": name == self.registry.opening,
                "src_lang": facts.src_lang,
                "tgt_lang": facts.tgt_lang,
                "src_name": language_name(facts.src_lang),
                "tgt_name": language_name(facts.tgt_lang),
            }
            for name, facts in self.registry.own_facts().items()
        ]


def _align(translator: Translator, translation: Translation) -> list[dict[str, Any]]:
    """Align the words of a translation; sentences too long to display have no links.

    Sentences are aligned one by one, because the maps of a whole text are quadratic in its length.
    """
    links = []
    rows = translation.n_best[0].tgt_ids
    for (src, tgt), row in zip(translation.sentences, rows, strict=True):
        candidate = Candidate(translation.text[slice(*tgt)], 0.0, (row,))
        with contextlib.suppress(InputError):
            links += _list_links(
                attend_candidate(translator, translation.src[slice(*src)], candidate)
            )
    return links


def _list_links(maps: Attention) -> list[dict[str, Any]]:
    """Return the word alignment as source word, target word and attention weight."""
    return [
        {
            "src": maps.src.text[slice(*link.src)],
            "tgt": maps.tgt.text[slice(*link.tgt)],
            "weight": round(link.weight, 4),
        }
        for link in maps.word_alignment()
    ]


def _count_tokens(translator: Translator, src: str, tgt: str) -> tuple[int, int]:
    n_src_tokens = len(translator.tokenizers.src.encode(src)) + 1
    return n_src_tokens, len(translator.tokenizers.tgt.encode(tgt)) + 1


def _text_details(timed: TimedTranslation) -> dict[str, Any]:
    found = timed.translation
    candidates = [
        {
            "text": candidate.text,
            "score": candidate.score,
            "token_probability": candidate.token_probability,
        }
        for candidate in found.n_best
    ]
    sentences = [
        {"src": found.src[slice(*pair.src)], "tgt": found.text[slice(*pair.tgt)]}
        for pair in found.sentences
    ]
    return {
        **candidates[0],
        "to_check": [found.text[slice(*pair.tgt)] for pair in found.to_check],
        "n_best": candidates,
        "sentences": sentences,
        "src_tokens": list(found.src_tokens),
        "tgt_tokens": list(found.tgt_tokens),
        "tgt_log_probs": list(found.tgt_log_probs),
        "warnings": list(found.warnings),
        "detected_language": found.detected_language,
        "seconds": round(timed.seconds, 4),
    }


def _pick(weights: Any, number: int, name: str) -> Any:
    """Select a layer or head of an array, counted from 1; 0 is the average of all."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= len(weights):
        raise InputError(f"{name} = {number} must be 0 (average) to {len(weights)}")
    return weights.mean(axis=0) if number == 0 else weights[number - 1]
