"""Export of a model to CTranslate2; needs the extra `hubnmt[fast]`.

CTranslate2 stores a table of positions, so an exported model accepts at most `N_POSITIONS` tokens.
"""

import os
import tempfile
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from hubnmt.checkpoint.files import replace_folder
from hubnmt.checkpoint.folder import StoredModel
from hubnmt.errors import ConfigError
from hubnmt.model.attention import MultiHeadAttention
from hubnmt.model.layers import DecoderLayer, EncoderLayer, FeedForward, sinusoidal_positions
from hubnmt.text.languages import example_sentence
from hubnmt.text.tokenizer import SPECIAL_PIECES

try:  # optional dependency
    import ctranslate2
except ImportError:
    ctranslate2 = None

N_POSITIONS = 4096
PAD, BOS, EOS = SPECIAL_PIECES

MODEL_CARD = "MODEL_CARD.md"

README = """\
# Translation, {config.src_lang} to {config.tgt_lang}

Exported by hubnmt. Needs `pip install ctranslate2 tokenizers` and nothing else; run in this folder:

```python
import ctranslate2, tokenizers
src, tgt = map(tokenizers.Tokenizer.from_file, {names})
translator = ctranslate2.Translator(".")
pieces = src.encode({text!r}).tokens
found = translator.translate_batch(
    [pieces], beam_size={decoding.beam_size}, length_penalty={decoding.length_penalty}
)
print(tgt.decode([tgt.token_to_id(piece) for piece in found[0].hypotheses[0]]))
```

The model translates one sentence at a time. Splitting texts into sentences, copying of URLs and
numbers, and a second search where the output is degenerate are parts of hubnmt, not of this folder.
{card}"""


def export_ctranslate2(
    stored: StoredModel, folder: str | os.PathLike[str], *, quantization: str | None = None
) -> None:
    """Write a CTranslate2 model folder; an existing folder is replaced atomically.

    With its tokenizers and a README it works without hubnmt.

    `quantization` is one of CTranslate2's types, such as `int8`; None keeps float32.

    Raises:
        ConfigError: if CTranslate2 is not installed or does not support the quantization.
    """
    if ctranslate2 is None:
        raise ConfigError("CTranslate2 is not installed: pip install 'hubnmt[fast]'")
    spec = build_spec(stored)
    try:
        spec.validate()
        spec.optimize(quantization=quantization)
    except ValueError as error:
        raise ConfigError(f"CTranslate2 cannot export this model: {error}") from None
    with replace_folder(Path(folder)) as draft:
        spec.save(str(draft))
        _add_readme(draft, stored)


def open_ctranslate2(stored: StoredModel, *, device: torch.device, compute_type: str) -> Any:
    """Load a model into a `ctranslate2.Translator`, through a temporary folder.

    A CPU uses as many threads as torch. `compute_type` is such as `float32` or `int8`.

    Raises:
        ConfigError: if CTranslate2 is not installed or does not support the device or type.
    """
    with tempfile.TemporaryDirectory(prefix="hubnmt-") as place:
        folder = Path(place) / "model"
        export_ctranslate2(stored, folder)
        try:
            return ctranslate2.Translator(
                str(folder),
                device=device.type,
                device_index=device.index or 0,
                compute_type=compute_type,
                intra_threads=torch.get_num_threads(),
            )
        except (RuntimeError, ValueError) as error:
            first = str(error).splitlines()[0]
            raise ConfigError(f"CTranslate2 cannot run this model: {first}") from None


def _add_readme(folder: Path, stored: StoredModel) -> None:
    """Write the tokenizers, a README that shows the use of the folder, and the model's own card."""
    stored.tokenizers.save(folder)
    names = sorted(path.name for path in folder.glob("tokenizer*.json"))  # source first
    config, card = stored.model.config, ""
    if stored.card:
        (folder / MODEL_CARD).write_text(stored.card, encoding="utf-8")
        card = f"\nData, scores and licence of the model: [{MODEL_CARD}]({MODEL_CARD})\n"
    readme = README.format(
        config=config,
        decoding=stored.decoding,
        names=names * (3 - len(names)),
        text=example_sentence(config.src_lang),
        card=card,
    )
    (folder / "README.md").write_text(readme, encoding="utf-8")


def build_spec(stored: StoredModel) -> Any:
    """Convert a model to a CTranslate2 `TransformerSpec`."""
    config, model = stored.model.config, stored.model
    specs = ctranslate2.specs
    activations = {"relu": specs.Activation.RELU, "gelu": specs.Activation.GELU}
    if config.activation not in activations:
        raise ConfigError(f"CTranslate2 export does not know activation = {config.activation!r}")
    head = config.alignment_head
    spec = specs.TransformerSpec.from_config(
        (config.n_encoder_layers, config.n_decoder_layers),
        config.n_heads,
        pre_norm=config.norm_order == "pre",
        activation=activations[config.activation],
        alignment_layer=-1 if head is None else head[0],
        alignment_heads=1 if head is None else config.n_heads,
    )
    spec.config.unk_token = PAD  # required by CTranslate2; byte-level BPE has no unknown token
    spec.config.bos_token = spec.config.decoder_start_token = BOS
    spec.config.eos_token = EOS
    spec.config.add_source_eos = True
    spec.register_source_vocabulary(stored.tokenizers.src.pieces)
    spec.register_target_vocabulary(stored.tokenizers.tgt.pieces)

    positions = sinusoidal_positions(0, N_POSITIONS, config.d_model)
    spec.encoder.embeddings[0].weight = _array(model.src_embedding.weight)
    spec.decoder.embeddings.weight = _array(model.tgt_embedding.weight)
    spec.decoder.projection.weight = _array(model.output_proj.weight)
    spec.encoder.position_encodings.encodings = _array(positions)
    spec.decoder.position_encodings.encodings = _array(positions)
    if config.norm_order == "pre":
        _norm(spec.encoder.layer_norm, model.encoder.final_norm)
        _norm(spec.decoder.layer_norm, model.decoder.final_norm)
    for target, encoder_layer in zip(spec.encoder.layer, model.encoder.layers, strict=True):
        _encoder_layer(target, cast(EncoderLayer, encoder_layer))
    for target, decoder_layer in zip(spec.decoder.layer, model.decoder.layers, strict=True):
        _decoder_layer(target, cast(DecoderLayer, decoder_layer))
    return spec


def _encoder_layer(target: Any, layer: EncoderLayer) -> None:
    _self_attention(target.self_attention, layer.self_attention, layer.self_residual.norm)
    _feed_forward(target.ffn, layer.feed_forward, layer.ff_residual.norm)


def _decoder_layer(target: Any, layer: DecoderLayer) -> None:
    _self_attention(target.self_attention, layer.self_attention, layer.self_residual.norm)
    _norm(target.attention.layer_norm, layer.cross_residual.norm)
    attention, d_model = layer.cross_attention, layer.cross_attention.d_model
    weight, bias = attention.qkv_proj.weight, attention.qkv_proj.bias
    queries, memory, out = target.attention.linear
    queries.weight, queries.bias = _array(weight[:d_model]), _array(bias[:d_model])
    memory.weight, memory.bias = _array(weight[d_model:]), _array(bias[d_model:])
    _linear(out, attention.out_proj)
    _feed_forward(target.ffn, layer.feed_forward, layer.ff_residual.norm)


def _self_attention(target: Any, attention: MultiHeadAttention, norm: nn.LayerNorm) -> None:
    _norm(target.layer_norm, norm)
    _linear(target.linear[0], attention.qkv_proj)
    _linear(target.linear[1], attention.out_proj)


def _feed_forward(target: Any, block: FeedForward, norm: nn.LayerNorm) -> None:
    _norm(target.layer_norm, norm)
    _linear(target.linear_0, block.linear1)
    _linear(target.linear_1, block.linear2)


def _norm(target: Any, norm: nn.Module) -> None:
    assert isinstance(norm, nn.LayerNorm)
    target.gamma, target.beta = _array(norm.weight), _array(norm.bias)


def _linear(target: Any, linear: nn.Linear) -> None:
    target.weight, target.bias = _array(linear.weight), _array(linear.bias)


def _array(tensor: Tensor) -> Any:
    return tensor.detach().float().cpu().contiguous().numpy()
