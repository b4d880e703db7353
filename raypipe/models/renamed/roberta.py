"""RoBERTa (Liu et al. 2019), XLM-RoBERTa and CamemBERT: one segment, positions from 2.

A head's first layer is a part of the head, and the pooler that a checkpoint may hold is not used.
Training drops out between the head's layers alone; transformers does so before the first one too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from raypipe.models.renamed.family import RenamedFamily
from raypipe.models.renamed.names import Names

if TYPE_CHECKING:
    from torch import Tensor

FIRST_POSITION = 2
"""One more than the padding's id: transformers numbers positions from there."""


def _activation() -> Callable[[Tensor], Tensor]:
    import torch

    return torch.tanh


def _roberta(kind: str, architecture: str) -> RenamedFamily:
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
    return RenamedFamily(names, activation=_activation)


ROBERTA = _roberta("roberta", "Roberta")
XLM_ROBERTA = _roberta("xlm-roberta", "XLMRoberta")
CAMEMBERT = _roberta("camembert", "Camembert")
