"""One shape in every system: what ours and Marian of `transformers` are configured with.

Takes the counts and widths of a shape, gives each system's configuration. Both tie all their
vocabulary matrices and have the same special ids.
"""

from typing import TYPE_CHECKING, Any

from hubnmt.config import ModelConfig
from hubnmt.text.tokenizer import Tokenizer

if TYPE_CHECKING:  # a peer, no need of ours
    from transformers import MarianConfig

Shape = dict[str, float]
"""`n` layers on either side, `d_model`, `n_heads`, `d_ff`, `vocab_size`; perhaps dropout `p`."""
PAD_ID, BOS_ID, EOS_ID = 0, 1, 2


class Vocabulary(Tokenizer):
    """Numbers in place of pieces: a benchmark needs ids, not text."""

    def __init__(self, size: int) -> None:
        self.pad_id, self.bos_id, self.eos_id = PAD_ID, BOS_ID, EOS_ID
        self._piece_bytes = [b""] * 3 + [f"{i:06d}".encode() for i in range(3, size)]
        self._span_bytes = {}

    def to_json(self) -> str:
        """Return an empty file, for the export to CTranslate2."""
        return "{}"

    @property
    def pieces(self) -> list[str]:
        """The numbers, for the export to CTranslate2."""
        return [str(number) for number in range(len(self._piece_bytes))]


def model_config(shape: Shape, **other: Any) -> ModelConfig:
    """Configure ours; `other` are more of its fields."""
    return ModelConfig(
        src_lang="x",
        tgt_lang="y",
        src_vocab_size=int(shape["vocab_size"]),
        tgt_vocab_size=int(shape["vocab_size"]),
        d_model=int(shape["d_model"]),
        n_heads=int(shape["n_heads"]),
        d_ff=int(shape["d_ff"]),
        n_encoder_layers=int(shape["n"]),
        n_decoder_layers=int(shape["n"]),
        **other,
    )


def marian_config(shape: Shape, **other: Any) -> "MarianConfig":
    """Configure the peer; `other` are more of its fields."""
    from transformers import MarianConfig

    return MarianConfig(
        vocab_size=int(shape["vocab_size"]),
        d_model=int(shape["d_model"]),
        encoder_layers=int(shape["n"]),
        decoder_layers=int(shape["n"]),
        encoder_attention_heads=int(shape["n_heads"]),
        decoder_attention_heads=int(shape["n_heads"]),
        encoder_ffn_dim=int(shape["d_ff"]),
        decoder_ffn_dim=int(shape["d_ff"]),
        pad_token_id=PAD_ID,
        eos_token_id=EOS_ID,
        decoder_start_token_id=BOS_ID,
        **other,
    )
