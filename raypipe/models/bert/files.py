"""BERT's `raypipe.models.family.Files`."""

from raypipe.models.bert.config import (
    architecture,
    as_bert,
    config_problems,
    converted_config,
    decisive,
    num_positions,
    own_problems,
)
from raypipe.models.bert.contradictions import contradictions
from raypipe.models.bert.tensor_names import (
    ADAPTED,
    HEADS,
    POOLER,
    SEGMENTS,
    canonical_names,
    expected_shapes,
    linear_names,
    may_have,
    saved_name,
    trained_names,
)

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
