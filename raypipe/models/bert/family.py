"""BERT, and families with its layers under other names.

DistilBERT (Sanh et al. 2019) has no segments, and a ReLU between a head's two layers. RoBERTa (Liu
et al. 2019), XLM-RoBERTa and CamemBERT have one segment, and positions from 2; a head's first layer
is a part of the head, and the pooler that a checkpoint may hold is not used. Training drops out
between the head's layers alone; transformers does so before the first one too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from raypipe.errors import InputError
from raypipe.models.bert.files import HEAD, POOLER, SEGMENTS, BertFiles
from raypipe.models.tensors import Config
from raypipe.text.inputs import Layout

if TYPE_CHECKING:  # importing torch takes seconds, and planning does not need it
    from tokenizers import Tokenizer
    from torch import Tensor

    from raypipe.models.bert.forward import BertPretraining
    from raypipe.models.packed import Body, Head, Updates
    from raypipe.models.tensors import Tensors

T = TypeVar("T")

DISTILBERT_EPS = 1e-12
"""A constant in transformers' code; config.json does not state it."""
FIRST_POSITION = 2
"""One more than the padding's id: transformers numbers positions from there."""
OF_HEAD = (*POOLER, *(HEAD[1] + part for part in ("weight", "bias")))


class Family:
    """One architecture: BERT's code on tensors that are given BERT's names, or what it overrides.

    Nothing else in raypipe depends on which one it is. torch is imported to read weights.
    """

    def __init__(self, files: BertFiles, *, activation: str = "tanh") -> None:
        """`activation` is torch's name of what a head computes between its layers."""
        self.files, self._activation = files, activation

    def layout(self, tokenizer: Tokenizer, segments: Sequence[int]) -> Layout:
        """The layout with one special token, each text, and another special token behind it.

        Raises:
            InputError: the tokenizer lacks one of them.
        """
        first, last, _ = self.files.specials
        first_id, last_id = (tokenizer.token_to_id(token) for token in (first, last))
        if first_id is None or last_id is None:
            raise InputError(f"the tokenizer has no {first} or no {last}")
        has_segments = self.files.has_segments
        return Layout(
            first_id,
            (last_id,) * self.files.num_separators,
            last_id,
            tuple(segments) if has_segments else (0,) * len(segments),
            self.files.first_position,
            has_segments=has_segments,
        )

    def _as_bert(self, weights: Mapping[str, T], names: Iterable[str]) -> dict[str, T]:
        """The tensors that are there, by these canonical names of BERT's."""
        held = self.files.canonical_names(weights)
        own = {name: self.files.own(name) for name in names}
        return {name: weights[held[place]] for name, place in own.items() if place in held}

    def _updates(self, updates: Updates | None, names: Iterable[str]) -> Updates | None:
        """The updates by BERT's names of their layers, without a prefix."""
        if updates is None:
            return None
        held = self._as_bert({f"{name}.weight": one for name, one in updates.items()}, names)
        return {name.removesuffix(".weight"): update for name, update in held.items()}

    @property
    def predicts_words(self) -> bool:
        """Whether it has the heads of pre-training."""
        return bool(self.files.words)

    @property
    def pretraining(self) -> BertPretraining:
        """The heads of pre-training under this family's names.

        Raises:
            InputError: it has none.
        """
        from raypipe.models.bert.forward import BertPretraining

        if not self.predicts_words:
            raise InputError(
                "pre-training: expected model_type bert or a relative with a masked-word head that "
                f"raypipe computes itself, found {self.files.kind}"
            )
        return BertPretraining(self.files)

    def read(self, weights: Tensors, config: Config, *, updates: Updates | None = None) -> Body:
        """The body, from tensors under any known names, with updates of its layers.

        A family without a segment table gets one row of zeros.
        """
        import torch

        from raypipe.models.bert.forward import read_bert

        like = self.files.as_bert(config)
        places = self.files.of_bert(config)
        tensors = self._as_bert(weights, places)
        if not self.files.has_table:
            tensors[SEGMENTS] = torch.zeros(1, like["hidden_size"])
        return read_bert(tensors, like, updates=self._updates(updates, places))

    @property
    def forward(self) -> Callable[..., Tensor]:
        """The forward pass, as `hidden_states` of `bert/forward.py`."""
        from raypipe.models.bert.forward import hidden_states

        return hidden_states

    def head(
        self,
        weights: Tensors,
        config: Config,
        *,
        updates: Updates | None = None,
    ) -> Head:
        """The pooler and the classifier, with the family's activation between them."""
        import torch

        from raypipe.models.packed import Head, padded

        tensors = self._as_bert(weights, OF_HEAD)
        *pooler, weight, bias = (tensors[name].float() for name in OF_HEAD)
        update = (self._updates(updates, POOLER) or {}).get(POOLER[0].removesuffix(".weight"), ())
        activation = getattr(torch, self._activation)
        classifier = padded((weight, bias))
        return Head((*pooler, *update), classifier, len(bias), activation)


FAMILY = Family(
    BertFiles(
        kind="bert",
        classes="Bert",
        prefix="bert.",
        body_has_pooler=True,
        has_segments=True,
        words=(
            "cls.predictions.transform.dense",
            "cls.predictions.transform.LayerNorm",
            "cls.predictions.decoder",
            "cls.predictions.bias",
        ),
        mask="[MASK]",
    )
)
DISTILBERT = Family(
    BertFiles(
        kind="distilbert",
        classes="DistilBert",
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
        has_table=False,
        words=("vocab_transform", "vocab_layer_norm", "vocab_projector", "vocab_projector.bias"),
        mask="[MASK]",
    ),
    activation="relu",
)


def _roberta(kind: str, classes: str) -> Family:
    return Family(
        BertFiles(
            kind=kind,
            classes=classes,
            prefix="roberta.",
            head=("classifier.dense.", "classifier.out_proj."),
            required={"pad_token_id": FIRST_POSITION - 1, "type_vocab_size": 1},
            specials=("<s>", "</s>", "<unk>"),
            num_separators=2,
            first_position=FIRST_POSITION,
        )
    )


ROBERTA = _roberta("roberta", "Roberta")
XLM_ROBERTA = _roberta("xlm-roberta", "XLMRoberta")
CAMEMBERT = _roberta("camembert", "Camembert")
