"""The files of BERT and of families with its layers under other names.

A config.json has the values for which raypipe's forward pass is that model's, and must not
contradict the tensors. A canonical name is that of transformers' model without a head
(`encoder.layer.0.attention.self.query.weight`, `pooler.dense.bias`) or the head's own:
`classifier.weight`, `classifier.bias`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from raypipe.models.tensors import Config, Shape, unit_names

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
for a BERT. The other keys change no result: dropout rates, names, versions, the file's dtype."""
GOOGLES = {
    "model_type": "bert",
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute",
}
"""What TensorFlow's bert_config.json means without saying it, as tf.contrib.layers.layer_norm's
epsilon."""
LARGEST = {"num_hidden_layers": 1000}
"""Limits: larger values would exhaust the memory before any tensor is checked."""

WORDS = "embeddings.word_embeddings.weight"
SEGMENTS = "embeddings.token_type_embeddings.weight"
LAYERS = "encoder.layer."
HEAD = ("pooler.dense.", "classifier.")
"""Beginnings of the names of a head's two layers."""
POOLER = ("pooler.dense.weight", "pooler.dense.bias")
PREFIX = "bert."
"""Prefix of the body's names in a model with a head."""
BUFFERS = ("embeddings.position_ids", "embeddings.token_type_ids")
"""Buffers that some releases of transformers save and all recompute."""
STATES = (
    "raypipe model convert FOLDER --out DIR writes a folder that states it, if the model is a BERT"
)
"""The remedy for a config.json of before transformers stated it."""
POSITIONS = "embeddings.position_embeddings.weight"
DECODERS = ("cls.predictions.decoder.weight", "lm_head.decoder.weight", "vocab_projector.weight")
"""Names of the layer that predicts words, whose weight is the table of word embeddings."""
WRAPPERS = ("_orig_mod.", "module.", "model.", "0.auto_model.", "auto_model.")
"""What compilers and trainers put before the name of each tensor of a model."""


@dataclass(frozen=True, kw_only=True)
class BertFiles:
    """Tensors and config.json of BERT, and of a family that differs from it in these names alone.

    A canonical name is the body's or the head's own. A saved name has the prefix that transformers
    adds in a model with a head. A training holds every tensor under its saved name with a head.
    """

    SEGMENTS: ClassVar[str] = SEGMENTS
    """The canonical name of the segment table, if the family has one."""

    kind: str
    """model_type in config.json."""
    classes: str
    """transformers' name of the classes, without Model and ForSequenceClassification."""
    prefix: str
    """Prefix of the body's tensors in a model with a head."""
    layers: str = LAYERS
    """The own beginning of names in a layer, for BERT's `encoder.layer.`."""
    beside_layers: tuple[str, ...] = ("embeddings.",)
    """Beginnings of the names of the body's other tensors."""
    parts: tuple[tuple[str, str], ...] = ()
    """(BERT's, own) parts of names in a layer; the first that is found is replaced."""
    head: tuple[str, str] = HEAD
    """Own beginnings of the names of a head's two layers."""
    body_has_pooler: bool = False
    """Whether the head's first layer has the prefix, as a part of the body."""
    adapted: tuple[str, ...] = ("query", "key", "value", "dense")
    """Last parts of the names of the linear layers to which peft adds updates."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of config.json by BERT's keys, where they differ."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Values for BERT's keys that config.json does not have."""
    required: Mapping[str, Any] = field(default_factory=dict)
    """Values of own keys without which raypipe's inputs or layers would be others."""
    specials: tuple[str, str, str] = ("[CLS]", "[SEP]", "[UNK]")
    """Special tokens, which a tokenizer must have: before the first text, behind a text, and for
    what is unknown."""
    num_separators: int = 1
    """Special tokens between two texts."""
    first_position: int = 0
    has_table: bool = True
    """Whether there is a segment table."""
    has_segments: bool = False
    """Whether inputs have segments; otherwise the table has one row."""
    words: tuple[str, ...] = (
        "lm_head.dense",
        "lm_head.layer_norm",
        "lm_head.decoder",
        "lm_head.bias",
    )
    """The head for masked words: a linear layer, its normalisation, the decoder that is the table
    of word embeddings, and the full name of its bias, which may have the decoder's own name too.
    Empty if the family has none here."""
    mask: str = "<mask>"
    """The special token in the place of a masked word piece."""

    def own(self, name: str) -> str:
        """The own canonical name for BERT's."""
        for of_bert, mine in zip(HEAD, self.head, strict=True):
            if name.startswith(of_bert):
                return mine + name.removeprefix(of_bert)
        part = next((pair for pair in self.parts if pair[0] in name), ("", ""))
        return name.replace(*part).replace(LAYERS, self.layers)

    def as_bert(self, config: Config) -> dict[str, Any]:
        """The values of config.json under BERT's keys, those that are missing left out."""
        own = set(self.keys.values())
        found = {key: value for key, value in config.items() if key not in own}
        found |= {key: config[mine] for key, mine in self.keys.items() if mine in config}
        return {**found, **self.fixed}

    def key(self, of_bert: str) -> str:
        """The own key for one of BERT's."""
        return self.keys.get(of_bert, of_bert)

    @property
    def POOLER(self) -> tuple[str, str]:
        """The head's first layer, which an encoder may have too."""
        return f"{self.head[0]}weight", f"{self.head[0]}bias"

    @property
    def HEADS(self) -> tuple[str, str]:
        """The head's last layer."""
        return f"{self.head[1]}weight", f"{self.head[1]}bias"

    def canonical_names(self, names: Iterable[str]) -> dict[str, str]:
        """A checkpoint's names by canonical name; of two with the same one, the first.

        Other heads, a pooler that no head here uses, and buffers have none.
        """
        places = {name: self.canonical(name) for name in sorted(names, reverse=True)}
        return {place: name for name, place in places.items() if place is not None}

    def saved_name(self, name: str, *, head: bool) -> str:
        """The name with the prefix in a model with a head, unless the tensor is the head's own."""
        place = name.removeprefix(self.prefix)
        bare = place in self.HEADS or (place in self.POOLER and not self.body_has_pooler)
        return self.prefix + place if head and not bare else place

    def trained_names(self, names: Iterable[str], *, head: bool) -> dict[str, str]:
        """Name in a checkpoint -> name in a training.

        Without `head`, pooler and classifier are left out.
        """
        saved_names = {}
        for name in names:
            place = self.canonical(name)
            if place is not None and (head or not self.may_have(place)):
                saved_names[name] = self.saved_name(place, head=True)
        return saved_names

    def linear_names(self, tensors: Mapping[str, "Tensor"], *, head: bool) -> list[str]:
        """Names of the encoder layers' linear layers; with `head` also the head's first layer."""
        first = self.saved_name(self.POOLER[0], head=True)
        layers = self.prefix + self.layers
        ends = tuple(f".{last}.weight" for last in self.adapted)
        return [
            name.removesuffix(".weight")
            for name in tensors
            if (name == first and head) or (name.startswith(layers) and name.endswith(ends))
        ]

    def expected_shapes(self, config: Config, *, num_labels: int | None) -> dict[str, Shape]:
        """Shapes by canonical name, with pooler and head if there are labels."""
        shapes = self.of_bert(config, num_labels)
        return {self.own(name): shape for name, shape in shapes.items()}

    def of_bert(self, config: Config, num_labels: int | None = None) -> dict[str, Shape]:
        """The same by BERT's canonical names."""
        shapes = _shapes(self.as_bert(config), num_labels)
        if not self.has_table:
            del shapes[SEGMENTS]
        return shapes

    def may_have(self, name: str) -> bool:
        """Whether the tensor is a pooler's or a head's, which a model may have and not read."""
        return name in (*self.POOLER, *self.HEADS)

    def config_problems(self, config: Config) -> list[str]:
        """Why nothing computes a checkpoint's model as it was trained: counts out of range, and
        other positions, which transformers reads no more."""
        like, key = self.as_bert(config), self.key
        problems = [
            f"{key(name)}: expected a count{_at_most(name)}, found {like.get(name)!r}"
            for name in NEEDED
            if type(like.get(name)) is not int
            or not 1 <= like[name] <= LARGEST.get(name, like[name])
        ]
        if (found := like.get("position_embedding_type", "absolute")) != "absolute":
            problems.append(f"position_embedding_type: expected absolute, found {found!r}")
        return problems

    def own_problems(self, config: Config) -> list[str]:
        """The same of a model folder's own config.json, which must state more, and sizes that do
        not fit."""
        problems = self.config_problems(config)
        like, key = self.as_bert(config), self.key
        for name, expected in (("model_type", self.kind), ("hidden_act", "gelu")):
            if name not in like:
                problems.append(f"{key(name)}: expected {expected}, found none; {STATES}")
        eps: Any = like.get("layer_norm_eps")
        if not _is_number(eps) or not 0 < eps < 1:
            found = f"found {eps!r}" + (f"; {STATES}" if eps is None else "")
            problems.append(f"layer_norm_eps: expected a number between 0 and 1, {found}")
        spread = like.get("initializer_range", 0)
        if not _is_number(spread):
            problems.append(f"initializer_range: expected a number, found {spread!r}")
        if not problems and like["hidden_size"] % like["num_attention_heads"]:
            problems.append(
                f"{key('num_attention_heads')}: expected a divisor of {key('hidden_size')} "
                f"{like['hidden_size']}, found {like['num_attention_heads']}"
            )
        problems += [
            f"{name}: expected {value}, found none"
            for name, value in self.required.items()
            if name not in config
        ]
        return problems + self.unpacked(config)

    def unpacked(self, config: Config) -> list[str]:
        """Why raypipe's forward pass cannot compute a variant that sentence-transformers can; empty
        if it can."""
        like = self.as_bert(config)
        expected = {"hidden_act": "gelu", "is_decoder": False, **self.required}
        return [
            f"{self.key(name)}: expected {value}, found {like[name]!r}"
            for name, value in expected.items()
            if like.get(name, value) != value
        ]

    def decisive(self, config: Config) -> dict[str, Any]:
        """The values of a valid config.json that affect a row's value, for fingerprints: those of
        DECISIVE under BERT's keys, the default of positions included."""
        like = self.as_bert(config)
        values = {name: like[name] for name in DECISIVE if name in like}
        values["layer_norm_eps"] = float(like["layer_norm_eps"])
        values.setdefault("position_embedding_type", "absolute")
        if self.first_position:
            values["padding_has_no_position"] = True  # in a text; earlier stores counted it
        return values

    def num_positions(self, config: Config) -> int:
        """Rows of the table of positions from the first that a token has."""
        positions = int(self.as_bert(config)["max_position_embeddings"])
        return positions - self.first_position

    def converted_config(
        self, config: Config, *, segment_rows: int, num_labels: int | None
    ) -> dict[str, Any]:
        """The content of config.json, with the keys for transformers that Google's file lacks."""
        body = dict(config)
        if self.kind == "bert":
            stated = {name: value for name, value in config.items() if value is not None}
            body = {**GOOGLES, **stated, "type_vocab_size": segment_rows}
        body["architectures"] = [self.architecture(head=num_labels is not None)]
        if num_labels is not None:
            body |= {**unit_names(num_labels), "num_labels": num_labels}
        return dict(sorted(body.items()))

    def architecture(self, *, head: bool) -> str:
        """The family's class in transformers, as a bare model or with a head that scores."""
        return self.classes + ("ForSequenceClassification" if head else "Model")

    def canonical(self, name: str) -> str | None:
        """The canonical name of a tensor; None if it is not the family's."""
        plain = name.removeprefix(self.prefix)
        of_body = plain.startswith((*self.beside_layers, self.layers))
        return plain if (of_body and plain not in BUFFERS) or self.may_have(plain) else None


def unwrapped(name: str) -> str:
    """A tensor's name without the wrappers before it."""
    return re.sub(f"^(?:{'|'.join(map(re.escape, WRAPPERS))})+", "", name)


def plain_names(names: Iterable[str]) -> dict[str, str]:
    """The name by which transformers saves a tensor now, by its name in a file of safetensors.

    Wrappers around the whole model go; the normalisation's gamma and beta, of before version 2, get
    their newer names; and a table of word embeddings that the file has under its tied decoder's
    name alone, as safetensors' save_model writes it, gets its own.
    """
    plain = {name: name for name in names}
    while plain:
        whole = (w for w in WRAPPERS if all(name.startswith(w) for name in plain.values()))
        wrapper = next(whole, None)
        if wrapper is None:
            break
        plain = {name: each.removeprefix(wrapper) for name, each in plain.items()}
    for old, new in (("gamma", "weight"), ("beta", "bias")):
        pattern, newer = rf"LayerNorm\.{old}$", f"LayerNorm.{new}"
        plain = {name: re.sub(pattern, newer, each) for name, each in plain.items()}
    places = [name for name in plain.values() if name.endswith(POSITIONS)]
    words = [place.removesuffix(POSITIONS) + WORDS for place in places]
    decoder = next((name for name, each in plain.items() if each in DECODERS), None)
    if decoder is not None and len(words) == 1 and words[0] not in plain.values():
        plain[decoder] = words[0]
    return plain if len({*plain.values()}) == len(plain) else {name: name for name in plain}


def _shapes(config: Config, num_labels: int | None) -> dict[str, Shape]:
    """Shapes of a BERT's body; with `num_labels` also of pooler and head."""
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    shapes: dict[str, Shape] = {
        WORDS: (config["vocab_size"], hidden),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], hidden),
        SEGMENTS: (config["type_vocab_size"], hidden),
        **norm_shapes("embeddings.LayerNorm", hidden),
    }
    for number in range(config["num_hidden_layers"]):
        at = f"{LAYERS}{number}"
        for part in ("query", "key", "value"):
            shapes |= dense_shapes(f"{at}.attention.self.{part}", hidden, hidden)
        shapes |= dense_shapes(f"{at}.attention.output.dense", hidden, hidden)
        shapes |= norm_shapes(f"{at}.attention.output.LayerNorm", hidden)
        shapes |= dense_shapes(f"{at}.intermediate.dense", hidden, wide)
        shapes |= dense_shapes(f"{at}.output.dense", wide, hidden)
        shapes |= norm_shapes(f"{at}.output.LayerNorm", hidden)
    if num_labels is not None:
        shapes |= dense_shapes("pooler.dense", hidden, hidden) | dense_shapes(
            "classifier", hidden, num_labels
        )
    return shapes


def dense_shapes(name: str, rows_in: int, rows_out: int) -> dict[str, Shape]:
    """Shapes of a linear layer's weight and bias."""
    return {f"{name}.weight": (rows_out, rows_in), f"{name}.bias": (rows_out,)}


def norm_shapes(name: str, hidden: int) -> dict[str, Shape]:
    """Shapes of a normalisation's weight and bias."""
    return {f"{name}.weight": (hidden,), f"{name}.bias": (hidden,)}


def _at_most(name: str) -> str:
    return f" of {LARGEST[name]:,} at most" if name in LARGEST else ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
