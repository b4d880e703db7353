"""BERT's `raypipe.models.family.Files`: config.json, the names and shapes of tensors.

A config.json has the values for which raypipe's forward pass is that model's, and must not
contradict the tensors. A canonical name is BertModel's
(`encoder.layer.0.attention.self.query.weight`, `pooler.dense.bias`) or the head's:
`classifier.weight`, `classifier.bias`. Other programs use others.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from raypipe.models.tensors import Config, Named, Shape, Source, unit_names

if TYPE_CHECKING:
    from torch import Tensor


NEEDED = (
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "type_vocab_size",
    "vocab_size",
)
DECISIVE = (*NEEDED, "hidden_act", "layer_norm_eps", "model_type", "position_embedding_type")
"""Everything in a config.json that raypipe's forward pass reads, or that transformers would read
for a BERT. What is left out changes no result: dropout rates, names, versions, the file's dtype."""
KEPT = (
    *NEEDED,
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "hidden_act",
    "hidden_dropout_prob",
    "initializer_range",
    "layer_norm_eps",
    "pad_token_id",
)
LAYER_NORM_EPS = 1e-12
"""The value of tf.contrib.layers.layer_norm, which TensorFlow's bert_config.json does not state."""
LARGEST = {"num_hidden_layers": 1000}
"""Limits: larger values would exhaust the memory before any tensor is checked."""


def config_problems(config: Config) -> list[str]:
    """Why raypipe cannot compute this model; empty if it can."""
    problems = [
        f"{name}: expected a count{_at_most(name)}, found {config.get(name)!r}"
        for name in NEEDED
        if type(config.get(name)) is not int
        or not 1 <= config[name] <= LARGEST.get(name, config[name])
    ]
    for name, expected in (("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
        if config.get(name, expected) != expected:
            problems.append(f"{name}: expected {expected}, found {config[name]!r}")
    if config.get("is_decoder"):
        problems.append("is_decoder: expected false, found true")
    return problems


def own_problems(config: Config) -> list[str]:
    """Like `config_problems`, for a model folder's own config.json, which must state more."""
    problems = config_problems(config)
    for name, expected in (("model_type", "bert"), ("hidden_act", "gelu")):
        if name not in config:
            problems.append(f"{name}: expected {expected}, found none")
    eps: Any = config.get("layer_norm_eps")
    if not _is_number(eps) or not 0 < eps < 1:
        problems.append(f"layer_norm_eps: expected a number between 0 and 1, found {eps!r}")
    if "initializer_range" in config and not _is_number(config["initializer_range"]):
        problems.append(
            f"initializer_range: expected a number, found {config['initializer_range']!r}"
        )
    if not problems and config["hidden_size"] % config["num_attention_heads"]:
        problems.append(
            f"num_attention_heads: expected a divisor of hidden_size {config['hidden_size']}, "
            f"found {config['num_attention_heads']}"
        )
    return problems


def decisive(config: Config) -> dict[str, Any]:
    """The values of a valid config.json that affect a row's value, for fingerprints."""
    values = {name: config[name] for name in DECISIVE if name in config}
    values["layer_norm_eps"] = float(config["layer_norm_eps"])
    values.setdefault("position_embedding_type", "absolute")
    return values


def num_positions(config: Config) -> int:
    """Number of tokens of the longest input, special tokens included."""
    return int(config["max_position_embeddings"])


def as_bert(config: Config) -> dict[str, Any]:
    """The content of a BERT's config.json, unchanged."""
    return dict(config)


def architecture(*, head: bool) -> str:
    """The transformers class that opens a model with or without a reranker's head."""
    return "BertForSequenceClassification" if head else "BertModel"


def converted_config(
    config: Config, *, segment_rows: int, num_labels: int | None
) -> dict[str, Any]:
    """The content of the converted folder's config.json, which transformers can open."""
    body = {
        "architectures": [architecture(head=num_labels is not None)],
        "model_type": "bert",
        "hidden_act": "gelu",
        "layer_norm_eps": LAYER_NORM_EPS,
        "position_embedding_type": "absolute",
        **{name: config[name] for name in KEPT if config.get(name) is not None},
        "type_vocab_size": segment_rows,
    }
    if num_labels is not None:
        body |= unit_names(num_labels)
    return dict(sorted(body.items()))


def _at_most(name: str) -> str:
    return f" of {LARGEST[name]:,} at most" if name in LARGEST else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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


def expected_shapes(config: Config, *, num_labels: int | None) -> dict[str, Shape]:
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


WORDS = "embeddings.word_embeddings.weight"
WIDENED = "encoder.layer.0.intermediate.dense.weight"
SIZES = {
    "vocab_size": (WORDS, 0),
    "hidden_size": (WORDS, 1),
    "max_position_embeddings": ("embeddings.position_embeddings.weight", 0),
    "type_vocab_size": (SEGMENTS, 0),
    "intermediate_size": (WIDENED, 0),
}
"""Each size in config.json, and the tensor's axis of that size."""
LAYER = "encoder.layer."


def contradictions(
    config: Config, shapes: Mapping[str, Shape], *, any_segments: bool = False
) -> list[str]:
    """The differences between a valid config.json and the shapes of the tensors by name.

    With `any_segments`, the segment table may have another number of rows than type_vocab_size: the
    third row of a duoBERT model is often not mentioned in config.json.
    """
    prefix = prefix_of(shapes)
    own = {name.removeprefix(prefix): shape for name, shape in shapes.items()}
    if any_segments and SEGMENTS in own:
        config = {**config, "type_vocab_size": own[SEGMENTS][0]}
    problems = [
        f"{size}: config.json says {config[size]}, the checkpoint has {own[name][axis]} "
        f"({prefix}{name} is {list(own[name])})"
        for size, (name, axis) in SIZES.items()
        if name in own and len(own[name]) == 2 and own[name][axis] != config[size]
    ]
    numbers = {name.removeprefix(LAYER).split(".")[0] for name in own if name.startswith(LAYER)}
    if len(numbers) != config["num_hidden_layers"]:
        problems.append(
            f"num_hidden_layers: config.json says {config['num_hidden_layers']}, the checkpoint "
            f"has {len(numbers)}"
        )
    if problems:
        return problems
    expected = expected_shapes(config, num_labels=None)
    problems = [f"the checkpoint lacks the tensor {prefix}{n}" for n in expected if n not in own]
    problems += [
        f"{prefix}{name}: expected shape {list(shape)}, found {list(own[name])}"
        for name, shape in expected.items()
        if name in own and own[name] != shape
    ]
    return problems


CLS, SEP = "[CLS]", "[SEP]"
SPECIAL_TOKENS: tuple[str, ...] = (CLS, SEP, "[UNK]")
HAS_SEGMENTS = True

__all__ = [
    "ADAPTED",
    "HAS_SEGMENTS",
    "HEADS",
    "POOLER",
    "SEGMENTS",
    "SPECIAL_TOKENS",
    "architecture",
    "as_bert",
    "canonical_names",
    "config_problems",
    "contradictions",
    "converted_config",
    "decisive",
    "expected_shapes",
    "linear_names",
    "may_have",
    "num_positions",
    "own_problems",
    "saved_name",
    "trained_names",
]
