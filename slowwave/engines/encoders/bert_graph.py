"""A small BERT as an ONNX graph: embeddings, layers, mean pooling and unit length, from its safetensors.

Built with `onnx` alone, of the fused operators that ONNX Runtime has for just this model, so that nothing is exported,
traced or optimised, and no torch is needed. Devlin et al.: BERT, NAACL 2019; post-norm layers as in Vaswani et al.,
2017.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

FUSED = "com.microsoft"
"""ONNX Runtime's own operators."""


def build_bert_graph(config: dict[str, Any], weights: Path) -> bytes:
    """Return the graph with its weights, as the bytes of an ONNX file. Takes about a second.

    Inputs: `ids`, int32, shape (n, length), texts with the same number of tokens; `share`, float32, shape
    (n, 1, length), the weight of each token in the mean. Output: `vectors`, float32, shape (n, width), rows of unit
    length.

    Args:
        config: the model's config.json.
        weights: its model.safetensors.

    Raises:
        KeyError: the weights are not those of such a BERT.
    """
    tensors = {
        name.removeprefix("bert."): tensor
        for name, tensor in load_file(weights).items()
    }
    graph = _Graph(
        {
            name: tensor.astype(np.float32, copy=False)
            for name, tensor in tensors.items()
        }
    )
    eps = float(config["layer_norm_eps"])
    x = graph.add_embeddings(eps)
    for layer in range(config["num_hidden_layers"]):
        x = graph.add_layer(
            x=x,
            at=f"encoder.layer.{layer}",
            heads=config["num_attention_heads"],
            eps=eps,
        )
    # Not ReduceMean: it sums one text in another order than many, so a vector would depend on the other texts.
    pooled = graph.add(
        "Squeeze",
        graph.add("MatMul", "share", x),
        graph.keep("pooled axis", np.array([1])),
    )
    graph.add("LpNormalization", pooled, name="vectors", axis=-1, p=2)
    made = helper.make_graph(
        graph.nodes,
        "bert",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT32, ["n", "length"]),
            _describe("share", "n", 1, "length"),
        ],
        [_describe("vectors", "n", config["hidden_size"])],
        graph.kept,
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid(FUSED, 1)]
    model: bytes = helper.make_model(
        made, opset_imports=versions, ir_version=8
    ).SerializeToString()
    return model


def quantise_graph(graph: bytes) -> bytes:
    """Return a graph of `build_bert_graph` whose products of matrices are of integers. Takes some seconds.

    Weights have a scale for each column, and what is multiplied with them one for each text, so the graph must be given
    one text at a time. Weights use 7 of the 8 bits: with 8, sums of a CPU without VNNI overflow and vectors differ
    (cosine .990); with 7 they have the same bits. Embeddings stay in 32 bits.
    """
    from onnxruntime.quantization import QuantType, quantize_dynamic

    model = onnx.load_model_from_string(graph)
    for node in model.graph.node:
        node.name = node.output[0]
    # Otherwise a warning recommends a preparation that fuses operators, which are fused here.
    helper.set_model_props(model, {"onnx.quant.pre_process": "onnxruntime.quant"})
    pooling = [node.name for node in model.graph.node if node.input[0] == "share"]
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "graph.onnx"
        quantize_dynamic(
            model,
            made,
            op_types_to_quantize=["MatMul", "Attention"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=pooling,
            extra_options={
                "MatMulConstBOnly": True,
                # of tensors whose type onnx can't infer behind ONNX Runtime's own operators
                "DefaultTensorType": TensorProto.FLOAT,
            },
        )
        return made.read_bytes()


def build_pooling_graph(
    model: Any,
    config: dict[str, Any],
    tensors: dict[str, npt.NDArray[np.float32]],
) -> bytes:
    """Return a graph of `build_bert_graph` with other upper layers, which gives weighted sums of the tokens' states.

    Inputs as there, but `share` has shape (n, sums, length). Output: `pooled`, float32, shape (n, sums, width).

    Args:
        model: the graph; it is changed.
        config: the model's config.json.
        tensors: the weights of the layers to replace, named as in a model.safetensors.
    """
    graph = model.graph
    made = _Graph(tensors)
    heads = config["num_attention_heads"]
    eps = float(config["layer_norm_eps"])
    for at in sorted({".".join(name.split(".")[:3]) for name in tensors}):
        made.add_layer(x="", at=at, heads=heads, eps=eps)
    replaced = {constant.name: constant for constant in made.kept}
    pooling = next(at for at, node in enumerate(graph.node) if node.input[0] == "share")
    del graph.node[pooling + 1 :]
    graph.node[pooling].output[0] = "pooled"
    read = {name for node in graph.node for name in node.input}
    constants = [one for one in graph.initializer if one.name in read]
    ids = [one for one in graph.input if one.name == "ids"]
    share = _describe("share", "n", "sums", "length")
    _replace(graph.initializer, [replaced.get(one.name, one) for one in constants])
    _replace(graph.input, [*ids, share])
    _replace(graph.output, [_describe("pooled", "n", "sums", config["hidden_size"])])
    changed: bytes = model.SerializeToString()
    return changed


def _describe(name: str, *shape: str | int) -> Any:
    """Return a float32 input or output of a graph."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def _replace(values: Any, others: list[Any]) -> None:
    """Replace the values of a repeated field."""
    del values[:]
    values.extend(others)


class _Graph:
    """The nodes and constants of a graph. Every method returns the name of its output."""

    def __init__(self, weights: dict[str, npt.NDArray[np.float32]]) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.kept: list[Any] = []

    def add(
        self,
        operator: str,
        *inputs: str,
        name: str = "",
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node and return the name of its first output."""
        name = name or f"{operator} {len(self.nodes)}"
        self.nodes.append(
            helper.make_node(operator, inputs, [name], domain=domain, **attributes)
        )
        return name

    def keep(self, name: str, values: npt.NDArray[Any]) -> str:
        """Add a constant and return its name."""
        self.kept.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def load(self, *names: str) -> str:
        """Add tensors of the model as one constant, joined along the last axis, and return its name.

        Tensors of layers are transposed, so that `x @ matrix` is right.
        """
        tensors = [
            self.weights[name].T if name.startswith("encoder") else self.weights[name]
            for name in names
        ]
        return self.keep(names[0], np.concatenate(tensors, axis=-1))

    def add_embeddings(self, eps: float) -> str:
        """Add the embeddings of words, positions and the first token type, with layer normalisation."""
        places = self.weights["embeddings.position_embeddings.weight"]
        name = "embedded"
        inputs = [
            "ids",
            "",
            self.load("embeddings.word_embeddings.weight"),
            self.keep(
                "places",
                places + self.weights["embeddings.token_type_embeddings.weight"][0],
            ),
            "",
            self.load("embeddings.LayerNorm.weight"),
            self.load("embeddings.LayerNorm.bias"),
        ]
        outputs = [name, "mask that is not read"]
        self.nodes.append(
            helper.make_node(
                "EmbedLayerNormalization", inputs, outputs, domain=FUSED, epsilon=eps
            )
        )
        return name

    def add_layer(
        self,
        x: str,
        at: str,
        heads: int,
        eps: float,
    ) -> str:
        """Add attention and the two dense layers after it."""
        parts = [f"{at}.attention.self.{part}" for part in ("query", "key", "value")]
        into = [
            self.load(*(f"{part}.{kind}" for part in parts))
            for kind in ("weight", "bias")
        ]
        seen = self.add("Attention", x, *into, domain=FUSED, num_heads=heads)
        x = self._add_dense_and_norm(
            inner=seen, x=x, at=f"{at}.attention.output", eps=eps
        )
        inner = self.add("MatMul", x, self.load(f"{at}.intermediate.dense.weight"))
        inner = self.add(
            "BiasGelu", inner, self.load(f"{at}.intermediate.dense.bias"), domain=FUSED
        )
        return self._add_dense_and_norm(inner=inner, x=x, at=f"{at}.output", eps=eps)

    def _add_dense_and_norm(
        self,
        inner: str,
        x: str,
        at: str,
        eps: float,
    ) -> str:
        bias, *norm = [
            self.load(f"{at}.{part}")
            for part in ("dense.bias", "LayerNorm.weight", "LayerNorm.bias")
        ]
        total = self.add(
            "Add", self.add("MatMul", inner, self.load(f"{at}.dense.weight")), x
        )
        # In this order they are not fused into SkipLayerNormalization, which takes five times as long on one core.
        return self.add(
            "LayerNormalization",
            self.add("Add", total, bias),
            *norm,
            axis=-1,
            epsilon=eps,
        )
