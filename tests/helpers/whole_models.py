"""Random models of architectures that transformers computes, as their users save them."""

import torch
import transformers
from renamed_models import POSITIONS, tokenizer_of

SIZES = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": POSITIONS, "initializer_range": 0.3,
}  # fmt: skip
OWN = {
    "albert": {"embedding_size": 16, "num_hidden_groups": 1},
    "deberta": {
        "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "pooler_hidden_size": 32,
    },
    "deberta-v2": {
        "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "pooler_hidden_size": 32,
        "position_buckets": 8, "norm_rel_ebd": "layer_norm", "share_att_key": True,
    },
    "electra": {"embedding_size": 16},
    "eurobert": {"num_key_value_heads": 4, "head_dim": 8, "pad_token_id": 0},
    "modernbert": {"local_attention": 8, "global_attn_every_n_layers": 2, "pad_token_id": 0},
    "mpnet": {"max_position_embeddings": POSITIONS + 2, "pad_token_id": 1},
    "rembert": {"input_embedding_size": 16, "output_embedding_size": 16},
}  # fmt: skip


def make(folder, kind, *, units=None, seed=0):
    """The folder as transformers saves it, with a tokenizer; returns the model."""
    folder.mkdir(parents=True, exist_ok=True)
    built = tokenizer_of("xlm-roberta" if kind == "mpnet" else "distilbert")
    if kind not in ("mpnet", "modernbert", "eurobert"):
        built.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    built.save_pretrained(folder)
    torch.manual_seed(seed)
    head = {} if units is None else {"num_labels": units}
    config = transformers.AutoConfig.for_model(
        kind, vocab_size=len(built), **{**SIZES, **OWN.get(kind, {}), **head}
    )
    name = "AutoModel" if units is None else "AutoModelForSequenceClassification"
    model = getattr(transformers, name).from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += torch.randn_like(parameter) * 0.1
    model.save_pretrained(folder)
    return model
