"""What other trainers call settings and losses of a training: transformers, sentence-transformers,
Tevatron, FlagEmbedding, ColBERT and peft."""

import re

_RATE = "optimiser.rate"
_BATCH = "batch, the examples of all workers together"
_WARMUP = "optimiser.warmup, a number of steps"
_PRECISION = "resources.precision: bf16 (fp16 is not trained in)"
_EVERY = "validate.every, a number of steps"
_BEST = "remove it: the checkpoint that is best on dev is the trained model"
_LENGTH = "model.total_limit of a reranker, or model.query_limit and model.passage_limit"
_KEYS = {
    **dict.fromkeys(("learning_rate", "lr", "rate"), _RATE),
    **dict.fromkeys(("per_device_train_batch_size", "train_batch_size", "batch_size"), _BATCH),
    **dict.fromkeys(("bsize", "per_gpu_train_batch_size"), _BATCH),
    **dict.fromkeys(("warmup_ratio", "warmup_steps", "num_warmup_steps", "warmup"), _WARMUP),
    **dict.fromkeys(("num_train_epochs", "num_epochs", "n_epochs"), "epochs"),
    **dict.fromkeys(("max_steps", "maxsteps", "num_steps"), "steps"),
    **dict.fromkeys(("gradient_accumulation_steps", "accumsteps", "grad_accum"), "accumulation"),
    "weight_decay": "optimiser.weight_decay",
    **dict.fromkeys(("max_grad_norm", "clip_grad_norm", "max_norm"), "optimiser.clip"),
    "adam_beta1": "optimiser.beta1",
    "adam_beta2": "optimiser.beta2",
    "adam_epsilon": "optimiser.eps",
    **dict.fromkeys(("lr_scheduler_type", "lr_scheduler", "scheduler"), "optimiser.decay"),
    **dict.fromkeys(("fp16", "bf16", "use_amp", "amp"), _PRECISION),
    **dict.fromkeys(("save_steps", "save_strategy", "checkpoint_save_steps"), "checkpoint_every"),
    **dict.fromkeys(("save_total_limit", "checkpoint_save_total_limit"), _BEST),
    **dict.fromkeys(("load_best_model_at_end", "save_best_model"), _BEST),
    **dict.fromkeys(("eval_steps", "evaluation_steps", "eval_strategy"), _EVERY),
    **dict.fromkeys(("metric_for_best_model", "greater_is_better"), "validate.measure"),
    **dict.fromkeys(("early_stopping_patience", "early_stopping", "patience"), "validate.patience"),
    **dict.fromkeys(("max_seq_length", "max_length", "max_len", "total_limit"), _LENGTH),
    **dict.fromkeys(("query_max_len", "q_max_len", "query_maxlen"), "model.query_limit"),
    **dict.fromkeys(("passage_max_len", "p_max_len", "doc_maxlen"), "model.passage_limit"),
    **dict.fromkeys(
        ("train_group_size", "train_n_passages", "nway", "num_negatives"),
        "negatives.per_example, the irrelevant passages of an example",
    ),
    "scale": "loss.temperature, which is 1 / scale",
    "temperature": "loss.temperature",
    **dict.fromkeys(("num_labels", "n_labels"), "model.head"),
    **dict.fromkeys(("r", "lora_r", "lora_rank"), "model.adapter.rank"),
    "lora_alpha": "model.adapter.alpha",
    **dict.fromkeys(("gradient_checkpointing", "recompute"), "resources.recompute"),
    **dict.fromkeys(("output_dir", "output_path", "overwrite_output_dir"), "--out FOLDER"),
    **dict.fromkeys(("model_name_or_path", "model_name", "base_model"), "model.start"),
    **dict.fromkeys(("resume_from_checkpoint", "resume"), "remove it: the same command resumes"),
    **dict.fromkeys(("data_seed", "random_seed"), "seed"),
    **dict.fromkeys(("train_data", "train_dataset", "dataset_name"), "train.NAME"),
    **dict.fromkeys(("eval_dataset", "evaluator"), "dev.NAME with validate"),
}
"""What is written here in the place of another trainer's setting, or of ours in another section."""

_LOSSES = {
    "info-nce": (
        "mnrl multiplenegativesranking cachedmultiplenegativesranking infonce contrastive dpr "
        "inbatchnegatives ntxent"
    ),
    "cross-entropy": "bce binarycrossentropy bcewithlogits crossentropy pointwise logistic",
    "margin-mse": "marginmse",
    "mse": "mse",
    "kl": "kldiv distillkldiv kldivergence kd mnkd",
    "pairwise-hinge": "hinge marginranking triplet pairwise",
    "listwise": "lce localizedcontrastive listnet softmaxcrossentropy groupwise",
    "masked-language-model": "mlm maskedlm maskedlanguagemodeling",
}
_OF_LOSS = {name: ours for ours, names in _LOSSES.items() for name in names.split()}


def instead_of(key: str) -> str | None:
    """What to do about a key that is another trainer's setting; None if none is known."""
    ours = _KEYS.get(key.lower())
    return ours if ours is None or ours.startswith("remove it") else f"write {ours}"


def loss_named(name: str) -> str | None:
    """Our name of a loss that other trainers call so; None if there is none."""
    bare = re.sub(r"[^a-z0-9]", "", name.lower())
    return _OF_LOSS.get(bare) or _OF_LOSS.get(bare.removesuffix("loss"))
