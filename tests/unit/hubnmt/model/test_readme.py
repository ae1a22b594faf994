"""The diagrams of hubnmt/model/README.md are read, the model is run, and both must tell the same.

Every part runs with sizes that all differ while a `Flow` writes down which box handed which tensor
to which box. An arrow that is drawn but does not exist, one that exists but is not drawn, a wrong
shape, a wrong number of tensors or a wrong line style (type of the tensor) fails.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from hubnmt.config import ModelConfig
from hubnmt.model import attention, transformer
from hubnmt.model.attention import MultiHeadAttention, scaled_dot_product_attention
from hubnmt.model.feed_forward import FeedForward
from hubnmt.model.kv_cache import DecoderCache, LayerCache
from hubnmt.model.layers import DecoderLayer, EncoderLayer, SubLayer
from hubnmt.model.masks import causal_mask, padding_mask
from hubnmt.model.transformer import Decoder, Encoder, Transformer

README = Path(__file__).parents[4] / "hubnmt" / "model" / "README.md"

SIZES = {"B": 2, "H": 3, "E": 4, "S": 5, "Q": 6, "T": 7, "N": 8, "K": 21, "W": 10}
SIZES |= {"D": 12, "F": 17, "V": 23, "L": 13}
B, H, E, S, Q, T, N, K, W, D, F, V, L = SIZES.values()
N_STEPS_OF_ONE, N_STEPS_OF_W = 1, 2  # K = 1 + 2 W entries in the cache
LINES = {"-->": torch.float32, "-.->": torch.bool, "==>": torch.int64}


class Arrow(NamedTuple):
    start: str
    end: str
    shape: tuple[int, ...]
    dtype: torch.dtype


# --- what the README says ------------------------------------------------------------------------

ARROW = re.compile(r'(?P<start>\w+) (?P<line>-->|-\.->|==>)\|"(?P<label>[^"]+)"\| (?P<end>\w+)')
LABEL = re.compile(r"(?:(?P<count>[^×]+) × )?\((?P<shape>[^()]+)\)")
NODE = re.compile(r'(?P<id>\w+)(?:\["[^"]+"\]|\(\["[^"]+"\]\))')


def evaluate(expression: str) -> int:
    """Put numbers for letters: `3D`, `L - 1`, `1`."""
    total = 0
    for sign, times, letter in re.findall(r"([+-]?) ?(\d*)([A-Z]?)", expression):
        if times or letter:
            value = int(times or 1) * (SIZES[letter] if letter else 1)
            total += -value if sign == "-" else value
    return total


def read_diagrams(text: str) -> dict[str, list[str]]:
    """Title -> lines of each mermaid block."""
    blocks = re.findall(r"```mermaid\nflowchart \w\w\n(.*?)```", text, flags=re.DOTALL)
    assert len(blocks) == text.count("```mermaid")
    diagrams = {}
    for block in blocks:
        title, *lines = (line.strip() for line in block.strip().splitlines())
        assert title.startswith("accTitle: ")
        diagrams[title.removeprefix("accTitle: ")] = lines
    assert len(diagrams) == len(blocks)
    return diagrams


def read_arrows(lines: list[str]) -> Counter[Arrow]:
    """Every arrow of one diagram with its label in numbers; nothing may be left unread."""
    arrows: Counter[Arrow] = Counter()
    nodes = set()
    for line in lines:
        if node := NODE.fullmatch(line):
            nodes.add(node["id"])
            continue
        arrow = ARROW.fullmatch(line)
        assert arrow, f"neither a node nor an arrow with its shape: {line}"
        label = LABEL.fullmatch(arrow["label"])
        assert label, f"no shape: {line}"
        assert {arrow["start"], arrow["end"]} <= nodes, f"a box without a name: {line}"
        shape = tuple(map(evaluate, label["shape"].split(", ")))
        drawn = Arrow(arrow["start"], arrow["end"], shape, LINES[arrow["line"]])
        arrows[drawn] += evaluate(label["count"] or "1")
    return arrows


# --- what the model does -------------------------------------------------------------------------


def tensors_in(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))
    elif isinstance(value, LayerCache):
        yield from (value.memory_k, value.memory_v)
    elif isinstance(value, DecoderCache):
        yield from tensors_in([value.memory_mask, value.layers])


class Flow(TorchFunctionMode):
    """Writes down the arrows: a box is a function we name with `box`, or any other torch function.

    The second call of a box is named `box_2`, unless it is in `merged`. What happens inside a box
    is its own business. Weights are no arrows.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.arrows: Counter[Arrow] = Counter()
        self.merged: set[str] = set()
        self._patch = patch
        self._maker: dict[int, str] = {}
        self._alive: list[Tensor] = []  # so that no id is used twice
        self._n_calls: Counter[str] = Counter()
        self._is_inside_a_box = False

    def name(self, **values: Any) -> None:
        """These are where the flow starts, or boxes it ends in."""
        for name, value in values.items():
            for tensor in tensors_in(value):
                if id(tensor) in self._maker:
                    self._draw(tensor, name)
                else:
                    self._made(name, tensor)

    def box(self, name: str, owner: Any, function: str = "forward") -> None:
        original = getattr(owner, function)

        def boxed(*args: Any, **kwargs: Any) -> Any:
            return self._call(name, original, args, kwargs)

        self._patch.setattr(owner, function, boxed)

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.__name__.strip("_")
        if name == "get":  # x.shape, x.device: not a tensor going anywhere
            return func(*args, **(kwargs or {}))
        if name == "to":  # still the same tensor
            result = func(*args, **(kwargs or {}))
            self._made(self._maker.get(id(args[0]), "to"), result)
            return result
        return self._call(name, func, args, kwargs or {})

    def _call(self, name: str, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if self._is_inside_a_box:
            return function(*args, **kwargs)
        self._n_calls[name] += 1
        if self._n_calls[name] > 1 and name not in self.merged:
            name = f"{name}_{self._n_calls[name]}"
        for tensor in tensors_in((args, kwargs)):
            self._draw(tensor, name)
        self._is_inside_a_box = True
        try:
            result = function(*args, **kwargs)
        finally:
            self._is_inside_a_box = False
        for tensor in tensors_in(result):
            self._made(name, tensor)
        return result

    def _made(self, name: str, tensor: Tensor) -> None:
        self._maker[id(tensor)] = name
        self._alive.append(tensor)

    def _draw(self, tensor: Tensor, end: str) -> None:
        if not isinstance(tensor, nn.Parameter):
            arrow = Arrow(self._maker[id(tensor)], end, tuple(tensor.shape), tensor.dtype)
            self.arrows[arrow] += 1


def make_config(**changes: Any) -> ModelConfig:
    sizes = {"d_model": D, "n_heads": H, "d_ff": F, "src_vocab_size": 19, "tgt_vocab_size": V}
    depths = {"n_encoder_layers": L, "n_decoder_layers": L}
    rates = {"dropout": 0.5, "attention_dropout": 0.5, "ff_dropout": 0.5}
    pair = {"src_lang": "de", "tgt_lang": "en", "share_embeddings": False}
    return ModelConfig(**(sizes | depths | rates | pair | changes))


def src_pads() -> Tensor:
    return torch.arange(S)[None, :] >= torch.tensor([[S], [3]])  # (B, S)


def box_blocks(flow: Flow, layer: EncoderLayer | DecoderLayer) -> None:
    """The boxes that encoder and decoder layer have in common."""
    flow.box("project_all", layer.self_attention, "project_all")
    flow.box("self_attention", layer.self_attention)
    flow.box("feed_forward", layer.feed_forward)
    flow.box("norm_self", layer.frame_self.norm)
    flow.box("dropout_self", layer.frame_self.dropout)
    flow.box("norm_ff", layer.frame_ff.norm)
    flow.box("dropout_ff", layer.frame_ff.dropout)


def box_cross_blocks(flow: Flow, layer: DecoderLayer) -> None:
    flow.box("project_queries", layer.cross_attention, "project_queries")
    flow.box("cross_attention", layer.cross_attention)
    flow.box("norm_cross", layer.frame_cross.norm)
    flow.box("dropout_cross", layer.frame_cross.dropout)


def run_scaled_dot_product_attention(flow: Flow) -> None:
    q, k, v = torch.randn(B, H, Q, E), torch.randn(B, H, K, E), torch.randn(B, H, K, E)
    attn_mask = torch.ones(B, 1, Q, K, dtype=torch.bool).tril(K - Q)
    flow.box("drop", attention, "drop")
    flow.name(q=q, k=k, v=v, attn_mask=attn_mask)
    with flow:
        mixture, weights = scaled_dot_product_attention(q, k, v, attn_mask=attn_mask, dropout=0.5)
    flow.name(mixture=mixture, weights=weights)


def run_self_attention(flow: Flow) -> None:
    block = MultiHeadAttention(D, H)
    x, attn_mask = torch.randn(B, N, D), causal_mask(N, N)
    flow.box("qkv_proj", block.qkv_proj)
    flow.box("split", block, "_split")
    flow.box("attend", attention, "scaled_dot_product_attention")
    flow.box("out_proj", block.out_proj)
    flow.name(x=x, attn_mask=attn_mask)
    with flow:
        out, weights = block(*block.project_all(x), attn_mask=attn_mask, need_weights=True)
    flow.name(out=out, weights=weights)


def run_cross_attention(flow: Flow) -> None:
    block = MultiHeadAttention(D, H)
    x, memory, attn_mask = torch.randn(B, T, D), torch.randn(B, S, D), padding_mask(src_pads())
    flow.box("project_queries", block, "project_queries")
    flow.box("project_memory", block, "project_memory")
    flow.box("attend", attention, "scaled_dot_product_attention")
    flow.box("out_proj", block.out_proj)
    flow.name(x=x, memory=memory, attn_mask=attn_mask)
    with flow:
        q, (k, v) = block.project_queries(x), block.project_memory(memory)
        out, weights = block(q, k, v, attn_mask=attn_mask, need_weights=True)
    flow.name(out=out, weights=weights)


def run_feed_forward(flow: Flow) -> None:
    block = FeedForward(D, F, activation="relu", dropout=0.5)
    for name in ("widen", "activate", "dropout", "narrow"):
        flow.box(name, block.get_submodule(name))
    x = torch.randn(B, N, D)
    flow.name(x=x)
    with flow:
        out = block(x)
    flow.name(out=out)


class Double(nn.Module):
    """Stands for any block."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


def run_sub_layer(flow: Flow, norm_order: str) -> None:
    frame, block = SubLayer(make_config(norm_order=norm_order)), Double()
    flow.box("norm", frame.norm)
    flow.box("dropout", frame.dropout)
    flow.box("block", block)
    x = torch.randn(B, N, D)
    flow.name(x=x)
    with flow:
        out = frame(x, block)
    flow.name(out=out)


def run_encoder_layer(flow: Flow) -> None:
    layer = EncoderLayer(make_config())
    box_blocks(flow, layer)
    x, attn_mask = torch.randn(B, S, D), padding_mask(src_pads())
    flow.name(x=x, attn_mask=attn_mask)
    with flow:
        out, weights = layer(x, attn_mask, need_weights=True)
    flow.name(out=out, weights=weights)


def run_decoder_layer(flow: Flow) -> None:
    layer = DecoderLayer(make_config())
    box_blocks(flow, layer)
    box_cross_blocks(flow, layer)
    flow.box("precompute_cross_attention", layer, "precompute_cross_attention")
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    self_mask, memory_mask = causal_mask(T, T), padding_mask(src_pads())
    flow.name(x=x, memory=memory, self_mask=self_mask, memory_mask=memory_mask)
    with flow:
        cache = layer.precompute_cross_attention(memory)
        flow.box("append", cache, "append")
        out, self_weights, cross_weights = layer(
            x, cache, self_mask=self_mask, memory_mask=memory_mask, need_weights=True
        )
    flow.name(out=out, self_weights=self_weights, cross_weights=cross_weights)


def run_embedding(flow: Flow) -> None:
    model = Transformer(make_config())
    flow.box("table", model.positions, "lookup")
    flow.box("dropout", model.positions.dropout)
    src_ids = torch.randint(19, (B, S))
    flow.name(src_ids=src_ids)
    with flow:
        out = model.positions(model.src_embedding(src_ids))
    flow.name(out=out)


def run_encoder(flow: Flow) -> None:
    encoder = Encoder(make_config())
    for layer in encoder.layers:
        flow.box("layer", layer)
    flow.merged = {"layer"}
    flow.box("final_norm", encoder.final_norm)
    x, attn_mask = torch.randn(B, S, D), padding_mask(src_pads())
    flow.name(x=x, attn_mask=attn_mask)
    with flow:
        memory, weights = encoder(x, attn_mask, need_weights=True)
    flow.name(memory=memory, weights=weights)


def run_decoder(flow: Flow) -> None:
    decoder = Decoder(make_config())
    for layer in decoder.layers:
        flow.box("layer", layer)
        flow.box("precompute_cross_attention", layer, "precompute_cross_attention")
    flow.merged = {"layer", "precompute_cross_attention"}
    flow.box("final_norm", decoder.final_norm)
    x, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    self_mask, memory_mask = causal_mask(T, T), padding_mask(src_pads())
    flow.name(x=x, memory=memory, self_mask=self_mask, memory_mask=memory_mask)
    with flow:
        cache = decoder.precompute_cross_attention(memory, memory_mask)
        hidden, self_weights, cross_weights = decoder(x, cache, self_mask, need_weights=True)
    flow.name(hidden=hidden, self_weights=self_weights, cross_weights=cross_weights)


def box_whole(flow: Flow, model: Transformer) -> None:
    flow.box("padding_mask", transformer, "padding_mask")
    flow.box("causal_mask", transformer, "causal_mask")
    flow.box("src_embedding", model.src_embedding)
    flow.box("tgt_embedding", model.tgt_embedding)
    flow.box("positions", model.positions)
    flow.box("positions_at", model.positions, "at")
    flow.box("encoder", model.encoder)
    flow.box("precompute_cross_attention", model.decoder, "precompute_cross_attention")
    flow.box("decoder", model.decoder)
    flow.box("project", model, "project")


def run_transformer(flow: Flow) -> None:
    model = Transformer(make_config())
    box_whole(flow, model)
    src_ids, tgt_in, src_pad_mask = torch.randint(19, (B, S)), torch.randint(V, (B, T)), src_pads()
    flow.name(src_ids=src_ids, tgt_in=tgt_in, src_pad_mask=src_pad_mask)
    with flow:
        logits = model(src_ids, tgt_in, src_pad_mask)
    flow.name(logits=logits)


def make_cache_before_the_step(model: Transformer) -> DecoderCache:
    """One step with one hypothesis, then all but the last with W: the next makes K entries."""
    cache = model.precompute_cross_attention(torch.randn(B, S, D), src_pads())
    model.step(torch.ones(B, 1, dtype=torch.int64), cache)
    cache.reorder(torch.zeros(B, W, dtype=torch.int64))
    for _ in range(N_STEPS_OF_W - 1):
        model.step(torch.randint(V, (B, W)), cache)
    return cache


def run_step(flow: Flow) -> None:
    model = Transformer(make_config())
    cache = make_cache_before_the_step(model)
    box_whole(flow, model)
    flow.box("advance", cache, "advance")
    last_ids = torch.randint(V, (B, W))
    flow.name(last_ids=last_ids, cache=cache)
    with flow:
        hidden = model.step(last_ids, cache)
        logits = model.project(hidden)
    flow.name(logits=logits)


def run_step_in_a_layer(flow: Flow) -> None:
    model = Transformer(make_config(n_decoder_layers=1))
    cache = make_cache_before_the_step(model)
    (layer,), (layer_cache,) = model.decoder.layers, cache.layers
    assert isinstance(layer, DecoderLayer)
    box_blocks(flow, layer)
    box_cross_blocks(flow, layer)
    flow.box("append", layer_cache, "append")
    x, self_mask, memory_mask = torch.randn(B, W, D), cache.advance(W), cache.memory_mask
    flow.name(x=x, memory=layer_cache, self_mask=self_mask, memory_mask=memory_mask)
    with flow:
        out, _, _ = layer(x, layer_cache, self_mask=self_mask, memory_mask=memory_mask)
    flow.name(out=out)


RUNS: dict[str, Callable[[Flow], None]] = {
    "Scaled dot-product attention": run_scaled_dot_product_attention,
    "Multi-head self-attention": run_self_attention,
    "Multi-head cross-attention": run_cross_attention,
    "Feed-forward network": run_feed_forward,
    "Sub-layer, pre-norm": lambda flow: run_sub_layer(flow, "pre"),
    "Sub-layer, post-norm": lambda flow: run_sub_layer(flow, "post"),
    "Encoder layer": run_encoder_layer,
    "Decoder layer": run_decoder_layer,
    "Embedding and positions": run_embedding,
    "Encoder": run_encoder,
    "Decoder": run_decoder,
    "Transformer": run_transformer,
    "One step": run_step,
    "One step inside a decoder layer": run_step_in_a_layer,
}


# --- the tests -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def text() -> str:
    return README.read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=RUNS)
def title(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def real_arrows(title: str) -> Counter[Arrow]:
    with pytest.MonkeyPatch.context() as patch:
        flow = Flow(patch)
        RUNS[title](flow)
    return flow.arrows


def test_every_diagram_is_checked_and_stands_in_reading_order(text: str) -> None:
    assert list(read_diagrams(text)) == list(RUNS)


def test_diagram_shows_what_really_flows(
    title: str, text: str, real_arrows: Counter[Arrow]
) -> None:
    drawn = read_arrows(read_diagrams(text)[title])
    assert drawn - real_arrows == Counter(), "drawn, but not real"
    assert real_arrows - drawn == Counter(), "real, but not drawn"


def test_legend_explains_every_letter_of_the_diagrams(text: str) -> None:
    labels = "".join(ARROW.fullmatch(line)["label"] for line in all_arrow_lines(text))  # type: ignore[index]
    legend = set(re.findall(r"^\| ([A-Z]) \|", text, flags=re.MULTILINE))
    assert set(re.findall(r"[A-Z]", labels)) == legend == set(SIZES)


def all_arrow_lines(text: str) -> list[str]:
    return [
        line for lines in read_diagrams(text).values() for line in lines if ARROW.fullmatch(line)
    ]


def test_files_named_in_the_text_exist(text: str) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (README.parent / target).is_file(), target
