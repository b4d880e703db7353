"""Models of other architectures, computed by transformers' own forward pass.

The rows of a batch are of one length, without padding, and equal transformers' for one row to
rounding. Unlike the packed families, a row's last bits may depend on the rows beside it, and the
numerics class says so.
"""

from raypipe.models.whole.decoder import DecoderFamily
from raypipe.models.whole.family import WholeFamily
from raypipe.models.whole.files import WholeFiles

WITH_SEGMENTS = ("albert", "electra", "ernie", "megatron-bert", "rembert")
WITHOUT_SEGMENTS = ("deberta", "deberta-v2", "eurobert", "modernbert", "mpnet")
KINDS = (*WITH_SEGMENTS, *WITHOUT_SEGMENTS)
"""By model_type: encoders that read in both directions. A test computes each of them."""
DECODERS = ("gemma3_text", "llama", "mistral", "qwen2", "qwen3")
"""Decoders, whose states are pooled as an encoder's; likewise."""
FAMILIES: dict[str, WholeFamily] = {
    **{kind: WholeFamily(WholeFiles(kind, has_segments=kind in WITH_SEGMENTS)) for kind in KINDS},
    **{kind: DecoderFamily(kind) for kind in DECODERS},
}

__all__ = ["DECODERS", "FAMILIES"]
