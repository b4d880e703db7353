"""`raypipe.models.family.Family` for BERT's layers under other names.

DistilBERT (Sanh et al. 2019) has no segments, and a ReLU between a head's two layers. RoBERTa (Liu
et al. 2019), XLM-RoBERTa and CamemBERT have one segment, and positions from 2; a head's first layer
is a part of the head, and the pooler that a checkpoint may hold is not used. Training drops out
between the head's layers alone; transformers does so before the first one too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from raypipe.errors import InputError
from raypipe.models.bert.family import FAMILY as BERT
from raypipe.models.bert.files import SEGMENTS, expected_shapes
from raypipe.models.no_pretraining import NoPretraining
from raypipe.models.relatives.files import Names, RelativeFiles
from raypipe.text.inputs import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.bert.forward import Bert, Head
    from raypipe.models.packed import Updates


UNITS = 1
"""Any number: names of tensors do not depend on it."""


class RelativeFamily:
    """BERT's code on tensors that are given BERT's names."""

    packed = True

    def __init__(
        self, names: Names, *, activation: Callable[[], Callable[[Tensor], Tensor]]
    ) -> None:
        """`activation` returns what a head computes between its layers; it may import torch."""
        self.files = RelativeFiles(names)
        self.pretraining = NoPretraining(names.kind)
        self._names, self._activation = names, activation

    def read(
        self,
        weights: Mapping[str, Tensor],
        config: Mapping[str, Any],
        *,
        updates: Updates | None = None,
    ) -> Bert:
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
        return BERT.read(held, like, updates=self._updates(updates, places))

    def forward(self, body: Bert, *tokens: Any, **settings: Any) -> Tensor:
        """See Family."""
        return BERT.forward(body, *tokens, **settings)

    def head(
        self,
        weights: Mapping[str, Tensor],
        *,
        relevant_label: int | None,
        updates: Updates | None = None,
    ) -> Head:
        """See Family."""
        pooler, head = BERT.files.POOLER, BERT.files.HEADS
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
        found = BERT.head(held, relevant_label=relevant_label, updates=own)
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

    def _as_bert(self, weights: Mapping[str, Tensor], names: Any) -> dict[str, Tensor]:
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


DISTILBERT_EPS = 1e-12
"""A constant in transformers' code; config.json does not state it."""


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


FIRST_POSITION = 2
"""One more than the padding's id: transformers numbers positions from there."""


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
