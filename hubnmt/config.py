"""Configuration stored with a model: architecture and decoding defaults.

All rules about valid values are in the `__post_init__` methods of this module.
"""

import dataclasses
import re
from typing import Annotated, Any, Literal, Self, TypedDict, Unpack

from hubnmt.schema import FromDict, above_zero, require, within

ENGINES = ("torch", "ctranslate2")
"""Libraries that can run the search; `ctranslate2` needs the extra `hubnmt[fast]`."""

DTYPE_NAMES = ("auto", "bfloat16", "float16", "float32", "int8")
"""Values of `dtype` for inference, see `hubnmt.inference.dtypes`."""

DEFAULT_BATCH_TOKENS = 4096
"""Maximum padded source tokens times hypotheses per batch."""

MAX_PARAMETERS = 4_000_000_000
"""Upper limit that protects against malicious configs; larger than any model of this kind."""

LANGUAGE_TAG = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Allowed language tags: they are printed in lists, and models may come from untrusted sources."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class ModelConfig(FromDict):
    """Architecture of a Transformer and its language pair."""

    src_lang: str
    """Source language, BCP 47 tag such as `de`."""
    tgt_lang: str
    """Target language, BCP 47 tag such as `en`."""
    src_vocab_size: int
    """Source vocabulary size, including the three special tokens."""
    tgt_vocab_size: int
    """Target vocabulary size, including the three special tokens."""
    d_model: int = 512
    """Hidden size: number of features of the residual stream."""
    n_heads: int = 8
    """Number of attention heads; must divide `d_model`."""
    d_ff: int = 2048
    """Hidden size of the feed-forward network."""
    n_encoder_layers: int = 6
    """Number of encoder layers."""
    n_decoder_layers: int = 6
    """Number of decoder layers."""
    norm_order: Literal["pre", "post"] = "pre"
    """Position of layer norm: before each sub-layer (with a final norm on both stacks), or after
    each residual connection as in the 2017 paper."""
    activation: Literal["relu", "gelu"] = "relu"
    """Activation function of the feed-forward network."""
    share_embeddings: bool = True
    """Share source and target embeddings; requires a joint vocabulary."""
    tie_output: bool = True
    """Tie the output projection to the target embedding."""
    dropout: float = 0.1
    """Dropout rate of embeddings and sub-layer outputs, in training."""
    attention_dropout: float = 0.0
    """Dropout rate of attention weights, in training."""
    ff_dropout: float = 0.0
    """Dropout rate after the feed-forward activation, in training."""
    max_src_tokens: int = 256
    """Maximum source length in training, in tokens. Longer input is split into sentences or
    clauses, with a warning; the weights impose no limit."""
    alignment_head: tuple[int, int] | None = None
    """(decoder layer, head) with the best word alignment on the validation set."""
    alignment_shift: Literal[0, 1] = 0
    """Row of that head that aligns a target token: 0 for the step that generates it, 1 for the next
    step, where it is the decoder's input (Chen et al. 2020, https://arxiv.org/abs/2004.14837)."""

    def __post_init__(self) -> None:
        """Validate ranges and relations between fields.

        Raises:
            ConfigError: lists each invalid field with its value and allowed range.
        """
        require(
            *within(self, 1, 2**20, "src_vocab_size", "tgt_vocab_size", "max_src_tokens"),
            *within(self, 1, 2**14, "d_model"),
            *within(self, 1, 2**17, "d_ff"),
            *within(self, 1, 256, "n_heads", "n_encoder_layers", "n_decoder_layers"),
            *within(self, 0, 0.99, "dropout", "attention_dropout", "ff_dropout"),
        )
        head = self.alignment_head
        require(
            (
                self.d_model % self.n_heads == 0,
                f"d_model = {self.d_model} must be a multiple of n_heads = {self.n_heads}",
            ),
            (self.d_model % 2 == 0, f"d_model = {self.d_model} must be even (sine, cosine pairs)"),
            (
                not self.share_embeddings or self.src_vocab_size == self.tgt_vocab_size,
                f"share_embeddings needs one vocabulary, but src_vocab_size = {self.src_vocab_size}"
                f" and tgt_vocab_size = {self.tgt_vocab_size}",
            ),
            (
                all(LANGUAGE_TAG.fullmatch(tag) for tag in (self.src_lang, self.tgt_lang)),
                f"src_lang = {self.src_lang!r} and tgt_lang = {self.tgt_lang!r} must be language "
                "tags such as 'de': letters, digits and - _",
            ),
            (
                head is None
                or (0 <= head[0] < self.n_decoder_layers and 0 <= head[1] < self.n_heads),
                f"alignment_head = {head} must be (decoder layer, head), counted from 0",
            ),
            (
                self.n_parameters <= MAX_PARAMETERS,
                f"{self.n_parameters:,} parameters are more than the {MAX_PARAMETERS:,} allowed",
            ),
        )

    @property
    def n_parameters(self) -> int:
        """Number of trainable parameters, computed without allocating them."""
        d, f = self.d_model, self.d_ff
        attention = 4 * (d * d + d)
        feed_forward = 2 * d * f + d + f
        encoder_layer = attention + feed_forward + 2 * 2 * d
        decoder_layer = 2 * attention + feed_forward + 3 * 2 * d
        final_norms = 2 * 2 * d if self.norm_order == "pre" else 0
        tables = self.tgt_vocab_size * d * (1 if self.tie_output else 2)
        tables += 0 if self.share_embeddings else self.src_vocab_size * d
        layers = self.n_encoder_layers * encoder_layer + self.n_decoder_layers * decoder_layer
        return layers + final_norms + tables


class DecodingOptions(TypedDict, total=False):
    """The fields of `DecodingConfig` as keyword arguments, for type checkers."""

    beam_size: int
    length_penalty: float
    n_best: int
    sample: bool
    temperature: float
    top_k: int
    top_p: float
    seed: int
    no_repeat_ngram_size: int
    repetition_penalty: float
    max_new_tokens: int | None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class DecodingConfig(FromDict):
    """Decoding options, with the same names in Python, JSON, commands and the app.

    The annotations are the help of the commands.

    Example:
        >>> from hubnmt.config import DecodingConfig
        >>> DecodingConfig(beam_size=4).with_options(length_penalty=1.2).beam_size
        4
    """

    beam_size: Annotated[int, "hypotheses kept per sentence; 1 is greedy search"] = 5
    length_penalty: Annotated[
        float, "exponent a of score = log_prob / length ** a; above 1 favours longer translations"
    ] = 1.0
    n_best: Annotated[int, "translations per text: at most beam size, or samples"] = 1
    sample: Annotated[bool, "sample tokens instead of beam search"] = False
    temperature: Annotated[float, "of sampling: below 1 sharpens the distribution"] = 1.0
    top_k: Annotated[int, "sample from the k most probable tokens; 0: all"] = 0
    top_p: Annotated[float, "sample from the smallest set with this probability; 1: all"] = 1.0
    seed: Annotated[int, "random seed of sampling; the same seed gives the same text"] = 0
    no_repeat_ngram_size: Annotated[
        int, "forbid repeated n-grams of this many tokens; 0: allow all"
    ] = 0
    repetition_penalty: Annotated[
        float, "above 1 makes generated tokens less likely (Keskar et al. 2019, section 4.1)"
    ] = 1.0
    max_new_tokens: Annotated[
        int | None,
        "most tokens per sentence, without those of a prefix (default: 2 x source tokens + 10)",
    ] = None

    def __post_init__(self) -> None:
        """Validate ranges.

        Raises:
            ConfigError: lists each invalid field with its value and allowed range.
        """
        require(
            *within(self, 1, 256, "beam_size", "n_best"),
            *within(self, -5, 5, "length_penalty"),
            (
                self.sample or self.n_best <= self.beam_size,
                f"n_best = {self.n_best} must be at most beam_size = {self.beam_size}",
            ),
            *above_zero(self, "temperature", "top_p", "repetition_penalty"),
            *within(self, 0, 100, "temperature", "repetition_penalty"),
            *within(self, 0, 1, "top_p"),
            *within(self, 0, 2**63 - 1, "top_k", "seed", "no_repeat_ngram_size"),
            *within(self, 1, 2**16, "max_new_tokens"),
        )

    def with_options(self, **options: Unpack[DecodingOptions]) -> Self:
        """Return a copy with some options replaced.

        Without `n_best`, that of this config is lowered to a smaller `beam_size` of a search.

        Raises:
            ConfigError: if an option is unknown or has an invalid value.
        """
        if not options:
            return self
        values: dict[str, Any] = {**self.to_dict(), **options}
        width = values["beam_size"]
        if "n_best" not in options and not values["sample"] and isinstance(width, int):
            values["n_best"] = max(1, min(values["n_best"], width))
        return self.from_dict(values, where="decoding options")

    def max_tgt_tokens(self, n_src_tokens: int) -> int:
        """Return the maximum target length, without eos and prefix."""
        return self.max_new_tokens or 2 * n_src_tokens + 10
