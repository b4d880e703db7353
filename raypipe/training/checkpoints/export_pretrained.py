"""The weights and configuration of a finished pre-training's model folder."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from raypipe.training.job import Job
from raypipe.training.model.worker import pretraining_start


def pretrained_tensors(job: Job, trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The trained tensors, and those that the training handed on."""
    return {**pretraining_start(job).carried, **trained}


def pretrained_config(job: Job, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The content of config.json, with which transformers opens the folder."""
    config = {n: v for n, v in job.start.config().items() if n not in ("torch_dtype", "id2label")}
    config.pop("label2id", None)
    heads = job.start.family.pretraining
    whole = heads.shapes(config, next_sentence=True)
    architecture = heads.architecture(next_sentence=all(name in tensors for name in whole))
    return {**config, "dtype": "float32", "architectures": [architecture]}
