"""Made-up checkpoints with the keys and shapes of the published ones: hidden 32, 2 layers."""

import json

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, BertModel

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 512,
    "vocab_size": 37,
}
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bert(*, seed=0, segments=2):
    torch.manual_seed(seed)
    return BertModel(BertConfig(**SIZES, type_vocab_size=segments)).eval()


def classifier(*, units=2, seed=0, segments=2):
    torch.manual_seed(seed)
    config = BertConfig(**SIZES, type_vocab_size=segments, num_labels=units)
    model = BertForSequenceClassification(config).eval()
    torch.nn.init.normal_(model.classifier.bias)
    return model


def write_vocabulary(folder, *, config=None):
    """vocab.txt of 37 pieces, as Google's folders have it; a tokenizer_config.json if given."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = [chr(code) for code in range(97, 123)]
    pieces = [*SPECIALS, *letters, "the", "##s", "##a", "rank", "lease", "##ed"]
    assert len(pieces) == SIZES["vocab_size"]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def write_config(folder, **fields):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(fields))


def repbert(folder, model):
    """config.json and pytorch_model.bin; keys begin with bert., position_ids among them."""
    state = {f"bert.{name}": tensor for name, tensor in model.state_dict().items()}
    state["bert.embeddings.position_ids"] = torch.arange(512)[None]
    write_config(
        folder,
        **SIZES,
        architectures=["RepBERT_Train"],
        hidden_act="gelu",
        layer_norm_eps=1e-12,
        model_type="bert",
        type_vocab_size=2,
        encode_type=None,
    )
    torch.save(state, folder / "pytorch_model.bin")
    return folder


def tensorflow_names(model):
    """(name, array) of each variable as dl4marco-bert's checkpoints have them."""
    for name, tensor in model.state_dict().items():
        array = tensor.numpy()
        if name.startswith("classifier."):
            yield (
                {"classifier.weight": "output_weights", "classifier.bias": "output_bias"}[name],
                array,
            )
            continue
        plain = name.replace(".layer.", ".layer_").replace(".", "/")
        stem, _, last = plain.rpartition("/")
        if stem.endswith("LayerNorm"):
            yield f"{stem}/{'gamma' if last == 'weight' else 'beta'}", array
        elif stem.endswith("_embeddings"):
            yield stem, array
        elif last == "weight":
            yield f"{stem}/kernel", np.ascontiguousarray(array.T)
        else:
            yield plain, array


def dl4marco(folder, model, *, segments=2):
    """bert_config.json, vocab.txt and an .npz of the variables, optimizer slots among them."""
    write_vocabulary(folder)
    fields = {**SIZES, "hidden_act": "gelu", "type_vocab_size": segments}
    (folder / "bert_config.json").write_text(json.dumps(fields))
    arrays = dict(tensorflow_names(model))
    slots = {"global_step": np.int64(400000)}
    for name in ("bert/pooler/dense/kernel", "output_weights"):
        slots |= {f"{name}/adam_m": arrays[name] * 0, f"{name}/adam_v": arrays[name] * 0}
    np.savez(folder / "model.npz", **arrays, **slots)
    return folder
