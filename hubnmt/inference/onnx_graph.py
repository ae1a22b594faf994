"""Construction of ONNX graphs, and the layers of the Transformer as ONNX operators.

Computes the same values as `hubnmt.model`, up to rounding. The graphs are written operator by
operator rather than traced, so that batch and lengths are free (a length of 0 included) and do not
depend on the version of PyTorch.
Source: operator set 17, https://onnx.ai/onnx/operators/
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor, nn

from hubnmt.errors import ConfigError
from hubnmt.model.attention import MultiHeadAttention
from hubnmt.model.feed_forward import FeedForward
from hubnmt.model.layers import SubLayer

try:  # optional dependency
    import onnx
except ImportError:
    onnx = None

OPERATOR_SET = 17
IR_VERSION = 8
"""Version of the file format that came with the operator set; later runtimes read it, too."""
FLOAT = 1
"""The number of float32 in ONNX."""
MAX_BYTES = 2**31
"""Size limit of a protobuf message, and so of a file."""

Signature: TypeAlias = tuple[str, Sequence[int | str]]


class Graph:
    """An ONNX graph under construction. Values are named by strings; names of weights are kept."""

    def __init__(self, model: nn.Module) -> None:
        """Start without nodes; `model` names the weights.

        Raises:
            ConfigError: if the package `onnx` is not installed.
        """
        if onnx is None:
            raise ConfigError("onnx is not installed: pip install 'hubnmt[onnx]'")
        self._names = {id(each): name for name, each in model.named_parameters()}
        self._nodes: list[Any] = []
        self._weights: dict[str, Any] = {}

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        output = output or f"{operator}_{len(self._nodes)}"
        self._nodes.append(onnx.helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(self, value: Tensor | Sequence[int] | float, name: str = "") -> str:
        """Add a constant: a tensor, a list of int64, or a float32; return its name."""
        name = name or f"constant_{len(self._weights)}"
        if name not in self._weights:
            tensor = value if isinstance(value, Tensor) else torch.tensor(value)
            array = tensor.detach().cpu().contiguous().numpy()
            self._weights[name] = onnx.numpy_helper.from_array(array, name)
        return name

    def weight(self, weight: Tensor, *, transposed: bool = False) -> str:
        """Add a weight in float32; the same parameter of the model is stored once."""
        name = self._names.get(id(weight), "")
        weight = weight.float()
        return self.constant(weight.T if transposed else weight, name)

    def to_model(self, inputs: Mapping[str, Signature], outputs: Mapping[str, Signature]) -> Any:
        """Return the `onnx.ModelProto`.

        Args:
            inputs: name to element type, as ONNX names it, and shape; named dimensions are free.
            outputs: the same for the outputs.

        Raises:
            ConfigError: if the weights are too large for one file.
        """
        if sum(len(each.raw_data) for each in self._weights.values()) >= MAX_BYTES:
            raise ConfigError(f"the weights need {MAX_BYTES:,} bytes or more, too many for ONNX")
        helper = onnx.helper
        described = [
            [
                helper.make_tensor_value_info(name, onnx.TensorProto.DataType.Value(kind), shape)
                for name, (kind, shape) in values.items()
            ]
            for values in (inputs, outputs)
        ]
        weights = list(self._weights.values())
        graph = helper.make_graph(self._nodes, "hubnmt", *described, initializer=weights)
        operators = [helper.make_opsetid("", OPERATOR_SET)]
        return helper.make_model(
            graph, opset_imports=operators, ir_version=IR_VERSION, producer_name="hubnmt"
        )


def embed(graph: Graph, table: Tensor, ids: str, positions: str) -> str:
    """Embed ids (B, T) at float32 positions (T,), with sinusoidal encodings: (B, T, D)."""
    d_model = table.shape[1]
    scale = graph.constant(math.sqrt(d_model))
    x = graph.add("Mul", graph.add("Gather", graph.weight(table), ids), scale)  # (B, T, D)
    even_features = torch.arange(0, d_model, 2, dtype=torch.float32)
    frequency = graph.constant(torch.exp(even_features * (-math.log(10_000.0) / d_model)))
    last = graph.constant([-1])
    angle = graph.add("Mul", graph.add("Unsqueeze", positions, last), frequency)  # (T, D / 2)
    halves = [
        graph.add("Unsqueeze", graph.add(function, angle), last) for function in ("Sin", "Cos")
    ]
    pairs = graph.add("Concat", *halves, axis=-1)  # (T, D / 2, 2)
    return graph.add("Add", x, graph.add("Reshape", pairs, graph.constant([-1, d_model])))


def padding_bias(graph: Graph, pad_mask: str) -> str:
    """Convert a pad mask (B, S), True = padding, to an additive mask (B, 1, 1, S)."""
    bias = graph.add("Where", pad_mask, graph.constant(-math.inf), graph.constant(0.0))
    return graph.add("Unsqueeze", bias, graph.constant([1, 2]))


def project(graph: Graph, x: str, weight: Tensor, bias: Tensor) -> str:
    """Apply a linear layer with weight (N, D) and bias (N,): (..., D) to (..., N)."""
    product = graph.add("MatMul", x, graph.weight(weight, transposed=True))
    return graph.add("Add", product, graph.weight(bias))


def norm(graph: Graph, x: str, layer: nn.Module) -> str:
    """Apply a layer norm, or nothing."""
    if isinstance(layer, nn.Identity):
        return x
    layer = cast(nn.LayerNorm, layer)
    weights = graph.weight(layer.weight), graph.weight(layer.bias)
    return graph.add("LayerNormalization", x, *weights, axis=-1, epsilon=layer.eps)


def pre_norm(graph: Graph, x: str, residual: SubLayer) -> str:
    """Return the input of a block with its residual connection."""
    return norm(graph, x, residual.norm) if residual.norm_first else x


def add_residual(graph: Graph, x: str, block: str, residual: SubLayer) -> str:
    """Return the output of a residual connection around a block."""
    x = graph.add("Add", x, block)
    return x if residual.norm_first else norm(graph, x, residual.norm)


def split_heads(graph: Graph, packed: str, attention: MultiHeadAttention, n: int) -> list[str]:
    """Split (B, T, n D) into n parts and H heads: (B, H, T, E) each."""
    d_head = attention.d_model // attention.n_heads
    shape = graph.constant([0, 0, n, attention.n_heads, d_head])  # 0 keeps a dimension
    parts = graph.add("Transpose", graph.add("Reshape", packed, shape), perm=[2, 0, 3, 1, 4])
    return [graph.add("Gather", parts, graph.constant(torch.tensor(i)), axis=0) for i in range(n)]


def attend(
    graph: Graph, qkv: Sequence[str], attention: MultiHeadAttention, bias: str | None = None
) -> str:
    """Apply scaled dot-product attention and the output projection.

    Args:
        graph: the graph.
        qkv: queries (B, H, Q, E), keys and values (B, H, K, E).
        attention: the layer.
        bias: additive mask (B, 1, 1, K), 0 = attend, -inf = masked; None = no mask.

    Returns:
        (B, Q, D).
    """
    q, k, v = qkv
    scale = graph.constant(math.sqrt(attention.n_heads / attention.d_model))
    keys = graph.add("Transpose", k, perm=[0, 1, 3, 2])  # (B, H, E, K)
    scores = graph.add("MatMul", graph.add("Mul", q, scale), keys)  # (B, H, Q, K)
    if bias is not None:
        scores = graph.add("Add", scores, bias)
    mixed = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), v)  # (B, H, Q, E)
    merged = graph.add(
        "Reshape",
        graph.add("Transpose", mixed, perm=[0, 2, 1, 3]),
        graph.constant([0, 0, attention.d_model]),
    )  # (B, Q, D)
    return project(graph, merged, attention.out_proj.weight, attention.out_proj.bias)


def feed_forward(graph: Graph, x: str, block: FeedForward) -> str:
    """Apply the feed-forward network: (B, T, D) to (B, T, D)."""
    inner = project(graph, x, block.widen.weight, block.widen.bias)
    if isinstance(block.activate, nn.ReLU):
        active = graph.add("Relu", inner)
    else:
        error = graph.add("Erf", graph.add("Mul", inner, graph.constant(math.sqrt(0.5))))
        half = graph.add("Mul", inner, graph.constant(0.5))
        active = graph.add("Mul", half, graph.add("Add", error, graph.constant(1.0)))
    return project(graph, active, block.narrow.weight, block.narrow.bias)
