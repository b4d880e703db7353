"""The only list of families of models that raypipe computes itself.

A family is a folder: how a checkpoint's tensors are named and read into a body and a reranker's
head, what they compute, and how texts become inputs. The code that encodes, scores and trains
knows only `Family`, with BERT's code, which the others have too or override.
"""

from collections.abc import Mapping

from raypipe.errors import InputError
from raypipe.models.bert.family import CAMEMBERT, DISTILBERT, ROBERTA, XLM_ROBERTA
from raypipe.models.bert.family import FAMILY as BERT
from raypipe.models.bert.family import Family as Family
from raypipe.models.bert.files import plain_names as plain_names
from raypipe.models.bert.files import unwrapped as unwrapped
from raypipe.models.modernbert.family import FAMILY as MODERNBERT
from raypipe.models.tensors import Config

UNSTATED = "bert"
"""The family if config.json has no model_type, as in Google's bert_config.json."""


FAMILIES: Mapping[str, Family] = {
    "bert": BERT,
    "camembert": CAMEMBERT,
    "distilbert": DISTILBERT,
    "modernbert": MODERNBERT,
    "roberta": ROBERTA,
    "xlm-roberta": XLM_ROBERTA,
}
"""All families by model_type of config.json."""


def family_of(config: Config) -> Family:
    """The family that config.json names.

    Raises:
        InputError: raypipe cannot compute that family.
    """
    kind = config.get("model_type", UNSTATED)
    if not isinstance(kind, str) or kind not in FAMILIES:
        known = " or ".join([", ".join([*FAMILIES][:-1]), [*FAMILIES][-1]])
        raise InputError(
            f"model_type: expected {known}, which raypipe can compute, found {kind!r}; name "
            "a model of that architecture"
        )
    return FAMILIES[kind]
