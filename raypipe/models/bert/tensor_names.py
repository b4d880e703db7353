"""The names of a BERT's tensors: raypipe's, and those used by other programs.

A canonical name is BertModel's (`encoder.layer.0.attention.self.query.weight`, `pooler.dense.bias`)
or the head's: `classifier.weight`, `classifier.bias`.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from raypipe.models.tensors import Named, Shape, Source

if TYPE_CHECKING:
    from torch import Tensor

SEGMENTS = "embeddings.token_type_embeddings.weight"
HEAD = "classifier.weight"
POOLER = ("pooler.dense.weight", "pooler.dense.bias")
HEADS = (HEAD, "classifier.bias")
CLASSIFIER = "classifier"
BODY = ("bert.embeddings.", "bert.encoder.")

TENSORFLOW_HEAD = {"output_weights": HEAD, "output_bias": "classifier.bias"}
TENSORFLOW_LAST = {"kernel": "weight", "gamma": "weight", "beta": "bias", "bias": "bias"}
PREFIX = "bert."
"""Prefix of the body's names in a model with a head."""
ADAPTED: tuple[str, ...] = ("query", "key", "value", "dense")
"""The last parts of the linear layers' names, as peft expects them."""
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
"""Buffers that some releases of transformers save and all recompute."""


def canonical_names(names: Iterable[str]) -> Named:
    """Canonical names for every name in a checkpoint of PyTorch or TensorFlow."""
    return named_by(canonical_name, names)


def named_by(canonical: Callable[[str], str | None], names: Iterable[str]) -> Named:
    """The names for which `canonical` has one, those without, and those with another's."""
    found: dict[str, Source] = {}
    unused, twice = [], []
    for name in sorted(names):
        place = canonical(name)
        if place is None:
            unused.append(name)
        elif place in found:
            twice.append(f"{found[place].name} and {name}")
        else:
            found[place] = Source(name, transpose=is_kernel(name))
    return Named(found, unused, twice)


def canonical_name(name: str) -> str | None:
    """The canonical name of, say, `bert/encoder/layer_0/output/dense/kernel`; None if no BERT's."""
    plain = name.removesuffix(":0")
    if "/" in plain or plain in TENSORFLOW_HEAD:
        return _from_tensorflow(plain)
    plain = plain.removeprefix("module.").removeprefix(PREFIX)
    plain = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", plain)
    plain = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", plain)
    return plain if _is_bert(plain) else None


def is_kernel(name: str) -> bool:
    """Whether the tensor is a TensorFlow kernel, the transpose of PyTorch's weight."""
    return name.removesuffix(":0").endswith("/kernel")


def expected_shapes(config: Mapping[str, Any], *, num_labels: int | None) -> dict[str, Shape]:
    """Shapes of the body by canonical name; with `num_labels` also of pooler and head."""
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, Shape] = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], hidden),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], hidden),
        SEGMENTS: (config["type_vocab_size"], hidden),
        **_norm("embeddings.LayerNorm", hidden),
    }
    for number in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            shapes |= _dense(f"{at}.attention.self.{part}", hidden, hidden)
        shapes |= _dense(f"{at}.attention.output.dense", hidden, hidden)
        shapes |= _norm(f"{at}.attention.output.LayerNorm", hidden)
        shapes |= _dense(f"{at}.intermediate.dense", hidden, wide)
        shapes |= _dense(f"{at}.output.dense", wide, hidden)
        shapes |= _norm(f"{at}.output.LayerNorm", hidden)
    if num_labels is not None:
        shapes |= _dense("pooler.dense", hidden, hidden) | _dense("classifier", hidden, num_labels)
    return shapes


def may_have(name: str) -> bool:
    """Whether a canonical tensor is a pooler's or head's, which an encoder may have too."""
    return name in (*POOLER, *HEADS)


def prefix_of(names: Iterable[str]) -> str:
    """`bert.` if the body's names begin with it, otherwise ""."""
    return PREFIX if any(name.startswith(PREFIX) for name in names) else ""


def saved_name(name: str, *, head: bool) -> str:
    """BertModel's name of a tensor, or with a head BertForSequenceClassification's."""
    place = name.removeprefix(PREFIX)
    return PREFIX + place if head and place not in HEADS else place


def trained_names(names: Iterable[str], *, head: bool) -> dict[str, str]:
    """`saved_name`, with a head, of each tensor that a training holds, in the order given.

    Buffers and other heads are left out; without `head`, so are pooler and classifier.
    """
    names = list(names)
    prefix = "" if prefix_of(names) else PREFIX
    found = {}
    for name in names:
        full = name if name.startswith((PREFIX, CLASSIFIER)) else prefix + name
        begins = (PREFIX, CLASSIFIER) if head else BODY
        if full.startswith(begins) and "position_ids" not in full:
            found[name] = full
    return found


def linear_names(tensors: Mapping[str, "Tensor"], *, head: bool) -> list[str]:
    """A training's linear layers without `.weight`, in order; with `head` also the pooler."""
    return [
        name.removesuffix(".weight")
        for name, tensor in tensors.items()
        if name.endswith(".weight")
        and tensor.dim() == 2
        and "embeddings" not in name
        and "LayerNorm" not in name
        and name.startswith(PREFIX)
        and (head or "pooler" not in name)
    ]


def _dense(name: str, rows_in: int, rows_out: int) -> dict[str, Shape]:
    return {f"{name}.weight": (rows_out, rows_in), f"{name}.bias": (rows_out,)}


def _norm(name: str, hidden: int) -> dict[str, Shape]:
    return {f"{name}.weight": (hidden,), f"{name}.bias": (hidden,)}


def _is_bert(plain: str) -> bool:
    return (
        plain.startswith(("embeddings.", "encoder.layer.", "pooler.")) and plain not in BUFFERS
    ) or plain in HEADS


def _from_tensorflow(name: str) -> str | None:
    if name in TENSORFLOW_HEAD:
        return TENSORFLOW_HEAD[name]
    if not name.startswith("bert/"):
        return None
    *parts, last = name.removeprefix("bert/").split("/")
    if parts == ["embeddings"] and last.endswith("_embeddings"):
        return f"embeddings.{last}.weight"
    if last not in TENSORFLOW_LAST:
        return None
    plain = ".".join([*(re.sub(r"^layer_(\d+)$", r"layer.\1", part) for part in parts), ""])
    return plain + TENSORFLOW_LAST[last]
