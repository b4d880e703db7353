"""BERT, and families with its layers under other names; see `raypipe.models.family.Family`.

DistilBERT (Sanh et al. 2019) has no segments, and a ReLU between a head's two layers. RoBERTa (Liu
et al. 2019), XLM-RoBERTa and CamemBERT have one segment, and positions from 2; a head's first layer
is a part of the head, and the pooler that a checkpoint may hold is not used. Training drops out
between the head's layers alone; transformers does so before the first one too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from raypipe.errors import InputError
from raypipe.models.bert import files
from raypipe.models.bert.files import BUFFERS, SEGMENTS, expected_shapes, named_by
from raypipe.models.tensors import Config, Named, Shape, no_pretraining, shape_problems, unit_names
from raypipe.text.inputs import Layout

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.bert.forward import Bert, BertPretraining, Head
    from raypipe.models.packed import Updates
    from raypipe.models.tensors import Tensors


LAYERS_OF_BERT = "encoder.layer."
HEAD_OF_BERT = ("pooler.dense.", "classifier.")
"""Beginnings of canonical names of a head's two layers in FAMILY."""
DISTILBERT_EPS = 1e-12
"""A constant in transformers' code; config.json does not state it."""
FIRST_POSITION = 2
"""One more than the padding's id: transformers numbers positions from there."""


class BertFamily:
    """One object for all models; torch is imported only to read weights."""

    files = files
    packed = True

    @property
    def pretraining(self) -> BertPretraining:
        """See Family."""
        from raypipe.models.bert.forward import PRETRAINING

        return PRETRAINING

    def read(self, weights: Tensors, config: Config, *, updates: Updates | None = None) -> Bert:
        """See Family."""
        from raypipe.models.bert.forward import read_bert

        return read_bert(weights, config, updates=updates)

    def forward(self, body: Bert, *tokens: Any, **settings: Any) -> Tensor:
        """See Family."""
        from raypipe.models.bert.forward import hidden_states

        return hidden_states(body, *tokens, **settings)

    def head(
        self, weights: Tensors, *, relevant_label: int | None, updates: Updates | None = None
    ) -> Head:
        """See Family."""
        from raypipe.models.bert.forward import read_head

        return read_head(weights, relevant_label=relevant_label, updates=updates)

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """[CLS] text [SEP], and another [SEP] after each further text."""
        cls_id, sep_id = (tokenizer.token_to_id(token) for token in (files.CLS, files.SEP))
        if cls_id is None or sep_id is None:
            raise InputError(f"the tokenizer has no {files.CLS} or no {files.SEP}")
        return Layout(cls_id, (sep_id,), sep_id, tuple(segments))


FAMILY = BertFamily()


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one family, beside BERT's."""

    kind: str
    """model_type in config.json."""
    architecture: str
    """transformers' name of the classes, without Model and ForSequenceClassification."""
    prefix: str
    """Of the body's tensors in a model with a head."""
    layers: str
    """The own beginning of names in a layer, for BERT's `encoder.layer.`."""
    parts: tuple[tuple[str, str], ...]
    """(BERT's, own) parts of names in a layer; the first that is found is replaced."""
    head: tuple[str, str]
    """Own beginnings of the names of a head's two layers."""
    adapted: tuple[str, ...]
    """Last parts of the linear layers' names, as peft expects them."""
    keys: Mapping[str, str]
    """Keys of config.json by BERT's keys, where they differ."""
    fixed: Mapping[str, Any]
    """Values for BERT's keys that config.json does not have."""
    required: Mapping[str, Any]
    """Values of own keys without which raypipe's inputs or layers would be others."""
    specials: tuple[str, str, str]
    """Special tokens: before the first text, behind a text, and for what is unknown."""
    num_separators: int
    """Special tokens between two texts."""
    first_position: int
    has_segments: bool
    """Whether there is a segment table; one that there is has one row."""

    def own(self, name: str) -> str:
        """The own canonical name for BERT's."""
        for of_bert, mine in zip(HEAD_OF_BERT, self.head, strict=True):
            if name.startswith(of_bert):
                return mine + name.removeprefix(of_bert)
        part = next((pair for pair in self.parts if pair[0] in name), ("", ""))
        return name.replace(*part).replace(LAYERS_OF_BERT, self.layers)

    def as_bert(self, config: Config) -> dict[str, Any]:
        """The values of config.json under BERT's keys, those that are missing left out."""
        own = set(self.keys.values())
        found = {key: value for key, value in config.items() if key not in own}
        found |= {key: config[mine] for key, mine in self.keys.items() if mine in config}
        kind = config.get("model_type")
        return {**found, **self.fixed, "model_type": "bert" if kind == self.kind else kind}

    def key(self, of_bert: str) -> str:
        """The own key for one of BERT's."""
        return self.keys.get(of_bert, of_bert)


class RelativeFiles:
    """See Files."""

    SEGMENTS = SEGMENTS
    HAS_SEGMENTS = False

    def __init__(self, names: Names) -> None:
        """The files of the family with these names."""
        self.names = names
        first, last = names.head
        self.POOLER = (f"{first}weight", f"{first}bias")
        self.HEADS = (f"{last}weight", f"{last}bias")
        self.ADAPTED = names.adapted
        self.SPECIAL_TOKENS: tuple[str, ...] = names.specials

    def canonical_names(self, names: Iterable[str]) -> Named:
        """See Files; other heads, and a pooler that no head here uses, are unused."""
        return named_by(self._canonical, names)

    def saved_name(self, name: str, *, head: bool) -> str:
        """See Files."""
        place = name.removeprefix(self.names.prefix)
        return self.names.prefix + place if head and not self._in_head(place) else place

    def trained_names(self, names: Iterable[str], *, head: bool) -> dict[str, str]:
        """See Files."""
        found = {}
        for name in names:
            place = self._canonical(name)
            if place is not None and (head or not self._in_head(place)):
                found[name] = self.saved_name(place, head=True)
        return found

    def linear_names(self, tensors: Tensors, *, head: bool) -> list[str]:
        """See Files."""
        first = self.names.head[0] + "weight"
        return [
            name.removesuffix(".weight")
            for name in tensors
            if (
                head
                if name == first
                else name.startswith(self.names.prefix + self.names.layers)
                and name.removesuffix(".weight").rpartition(".")[2] in self.names.adapted
            )
        ]

    def expected_shapes(self, config: Config, *, num_labels: int | None) -> dict[str, Shape]:
        """See Files."""
        found = expected_shapes(self.names.as_bert(config), num_labels=num_labels)
        if not self.names.has_segments:
            del found[SEGMENTS]
        return {self.names.own(name): shape for name, shape in found.items()}

    def may_have(self, name: str) -> bool:
        """See Files."""
        return self._in_head(name)

    def config_problems(self, config: Config) -> list[str]:
        """See Files."""
        return self._renamed(files.config_problems(self.names.as_bert(config)))

    def own_problems(self, config: Config) -> list[str]:
        """See Files."""
        problems = self._renamed(files.own_problems(self.names.as_bert(config)))
        return problems + [
            f"{key}: expected {value}, found {config.get(key)!r}"
            for key, value in self.names.required.items()
            if config.get(key) != value
        ]

    def decisive(self, config: Config) -> dict[str, Any]:
        """See Files; under BERT's keys."""
        return files.decisive(self.names.as_bert(config)) | {"model_type": self.names.kind}

    def num_positions(self, config: Config) -> int:
        """See Files."""
        positions = int(self.names.as_bert(config)["max_position_embeddings"])
        return positions - self.names.first_position

    def as_bert(self, config: Config) -> dict[str, Any]:
        """See Files."""
        return self.names.as_bert(config)

    def contradictions(
        self, config: Config, shapes: Mapping[str, Shape], *, any_segments: bool = False
    ) -> list[str]:
        """See Files."""
        found = self.canonical_names(shapes).found
        own = {place: (source.name, shapes[source.name]) for place, source in found.items()}
        expected = self.expected_shapes(config, num_labels=None)
        if any_segments and SEGMENTS in own:
            expected.pop(SEGMENTS, None)
        return shape_problems(expected, own) + [
            f"{name}: config.json says {config[self.names.key('num_hidden_layers')]} layers, the "
            "checkpoint has this tensor too"
            for place, (name, _) in own.items()
            if place.startswith(self.names.layers) and place not in expected
        ]

    def converted_config(
        self, config: Config, *, segment_rows: int, num_labels: int | None
    ) -> dict[str, Any]:
        """See Files."""
        body = dict(config) | {"architectures": [self.architecture(head=num_labels is not None)]}
        if num_labels is not None:
            body |= unit_names(num_labels)
        return dict(sorted(body.items()))

    def architecture(self, *, head: bool) -> str:
        """See Files."""
        kind = "ForSequenceClassification" if head else "Model"
        return self.names.architecture + kind

    def _canonical(self, name: str) -> str | None:
        """The canonical name of a tensor; None if it is not the family's."""
        plain = name.removeprefix("module.")
        place = plain.removeprefix(self.names.prefix)
        if self._in_head(place):
            return place if place == plain else None
        body = ("embeddings.", self.names.layers)
        return place if place.startswith(body) and place not in BUFFERS else None

    def _in_head(self, place: str) -> bool:
        return place in self.POOLER or place in self.HEADS

    def _renamed(self, problems: list[str]) -> list[str]:
        """BERT's problems with own keys and the own kind."""
        own = []
        for problem in problems:
            key, colon, rest = problem.partition(":")
            rest = rest.replace(" expected bert,", f" expected {self.names.kind},")
            rest = rest.replace(" hidden_size ", f" {self.names.key('hidden_size')} ")
            own.append(self.names.key(key) + colon + rest)
        return own


class RelativeFamily:
    """BERT's code on tensors that are given BERT's names."""

    packed = True

    def __init__(
        self, names: Names, *, activation: Callable[[], Callable[[Tensor], Tensor]]
    ) -> None:
        """`activation` returns what a head computes between its layers; it may import torch."""
        self.files = RelativeFiles(names)
        self._names, self._activation = names, activation

    @property
    def pretraining(self) -> NoReturn:
        """Raises InputError."""
        raise no_pretraining(self._names.kind)

    def read(self, weights: Tensors, config: Config, *, updates: Updates | None = None) -> Bert:
        """See Family."""
        import torch

        like = self._names.as_bert(config)
        places = expected_shapes(like, num_labels=None)
        held = self._as_bert(weights, places)
        if not self._names.has_segments:
            held[SEGMENTS] = torch.zeros(1, like["hidden_size"])
        missing = [self._names.own(name) for name in places if name not in held]
        if missing:
            raise InputError([f"the checkpoint lacks the tensor {name}" for name in missing])
        return FAMILY.read(held, like, updates=self._updates(updates, places))

    def forward(self, body: Bert, *tokens: Any, **settings: Any) -> Tensor:
        """See Family."""
        return FAMILY.forward(body, *tokens, **settings)

    def head(
        self, weights: Tensors, *, relevant_label: int | None, updates: Updates | None = None
    ) -> Head:
        """See Family."""
        pooler, head = FAMILY.files.POOLER, FAMILY.files.HEADS
        held = self._as_bert(weights, (*pooler, *head))
        missing = [self._names.own(name) for name in (*pooler, *head) if name not in held]
        if missing:
            raise InputError(
                [
                    f"the checkpoint lacks the tensor {name}: it has no head that scores pairs"
                    for name in missing
                ]
            )
        own = self._updates(updates, pooler)
        found = FAMILY.head(held, relevant_label=relevant_label, updates=own)
        return replace(found, activation=self._activation())

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """See Family; every segment is 0."""
        first, last, _ = self._names.specials
        first_id, last_id = (tokenizer.token_to_id(token) for token in (first, last))
        if first_id is None or last_id is None:
            raise InputError(f"the tokenizer has no {first} or no {last}")
        between = (last_id,) * self._names.num_separators
        zeros = (0,) * len(segments)
        place = self._names.first_position
        return Layout(first_id, between, last_id, zeros, place, has_segments=False)

    def _as_bert(self, weights: Tensors, names: Any) -> dict[str, Tensor]:
        """The tensors by these canonical names of BERT's, without those that are missing."""
        places = {name: self._saved(name, weights) for name in names}
        return {name: weights[saved] for name, saved in places.items() if saved is not None}

    def _saved(self, name: str, held: Mapping[str, Any]) -> str | None:
        """The name, among those held, for one of BERT's canonical names; None if there is none."""
        own = self._names.own(name)
        return next((saved for saved in (own, self._names.prefix + own) if saved in held), None)

    def _updates(self, updates: Updates | None, names: Any) -> Updates | None:
        """The updates by BERT's names of their layers, without a prefix."""
        if updates is None:
            return None
        layers = [name.removesuffix("weight") for name in names if name.endswith(".weight")]
        held = {f"{name}.": update for name, update in updates.items()}
        places = {layer: self._saved(layer, held) for layer in layers}
        return {layer[:-1]: held[at] for layer, at in places.items() if at is not None}


def _relu() -> Callable[[Tensor], Tensor]:
    import torch

    return torch.relu


_DISTILBERT = Names(
    kind="distilbert",
    architecture="DistilBert",
    prefix="distilbert.",
    layers="transformer.layer.",
    parts=(
        (".attention.self.query.", ".attention.q_lin."),
        (".attention.self.key.", ".attention.k_lin."),
        (".attention.self.value.", ".attention.v_lin."),
        (".attention.output.dense.", ".attention.out_lin."),
        (".attention.output.LayerNorm.", ".sa_layer_norm."),
        (".intermediate.dense.", ".ffn.lin1."),
        (".output.dense.", ".ffn.lin2."),
        (".output.LayerNorm.", ".output_layer_norm."),
    ),
    head=("pre_classifier.", "classifier."),
    adapted=("q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"),
    keys={
        "hidden_size": "dim",
        "intermediate_size": "hidden_dim",
        "num_hidden_layers": "n_layers",
        "num_attention_heads": "n_heads",
        "hidden_act": "activation",
    },
    fixed={
        "type_vocab_size": 1,
        "layer_norm_eps": DISTILBERT_EPS,
        "position_embedding_type": "absolute",
    },
    required={},
    specials=("[CLS]", "[SEP]", "[UNK]"),
    num_separators=1,
    first_position=0,
    has_segments=False,
)
DISTILBERT = RelativeFamily(_DISTILBERT, activation=_relu)


def _tanh() -> Callable[[Tensor], Tensor]:
    import torch

    return torch.tanh


def _roberta(kind: str, architecture: str) -> RelativeFamily:
    names = Names(
        kind=kind,
        architecture=architecture,
        prefix="roberta.",
        layers="encoder.layer.",
        parts=(),
        head=("classifier.dense.", "classifier.out_proj."),
        adapted=("query", "key", "value", "dense"),
        keys={},
        fixed={},
        required={"pad_token_id": FIRST_POSITION - 1, "type_vocab_size": 1},
        specials=("<s>", "</s>", "<unk>"),
        num_separators=2,
        first_position=FIRST_POSITION,
        has_segments=True,
    )
    return RelativeFamily(names, activation=_tanh)


ROBERTA = _roberta("roberta", "Roberta")
XLM_ROBERTA = _roberta("xlm-roberta", "XLMRoberta")
CAMEMBERT = _roberta("camembert", "Camembert")
