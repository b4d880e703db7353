"""An adapter over a masked language model, and what is said of the pooler that neither has."""

import json

from transformers import BertForSequenceClassification

POOLER = ("bert.pooler.dense.bias", "bert.pooler.dense.weight")
PAIR = {"kind": "mono", "query_limit": 12, "passage_limit": None, "total_limit": 64}
PAIR |= {"relevant_label": 1, "score": "log-probability"}


def made_by_peft(base, folder, *, pooler):
    """The folder of an adapter that peft saved, with a pooler of its own if wanted."""
    from peft import LoraConfig, get_peft_model  # a second, for one test file

    whole = ["classifier", *(["pooler"] if pooler else [])]
    config = LoraConfig(
        task_type="SEQ_CLS", r=2, target_modules=["query", "value"], modules_to_save=whole
    )
    model = get_peft_model(BertForSequenceClassification.from_pretrained(base), config)
    model.save_pretrained(folder)
    (folder / "raypipe.json").write_text(json.dumps({**PAIR, "base": str(base)}))
    return folder


def refused(told, names=POOLER):
    """Whether each tensor has a line of its own that says which file lacks it."""
    lines = [line for line in told.splitlines() if "lacks the tensor" in line]
    return all(any(f"lacks the tensor {name}" in line for line in lines) for name in names)
