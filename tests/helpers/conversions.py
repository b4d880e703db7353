"""Checkpoints' files and what transformers' own model says of them."""

import checkpoints as made
import torch
from safetensors.torch import save_file

IDS = torch.tensor([[2, 5, 6, 7, 3, 9, 11, 32, 3]])


SEGMENTS = torch.tensor([[0, 0, 0, 0, 0, 1, 1, 1, 1]])


@torch.inference_mode()
def states(model):
    return model(IDS, token_type_ids=SEGMENTS).last_hidden_state


def safe(folder):
    """The same checkpoint as safetensors: without the second that a child process takes."""
    file = folder / "pytorch_model.bin"
    save_file(torch.load(file), folder / "model.safetensors")
    file.unlink()
    return folder


def hugging_face(folder, model, **fields):
    made.write_vocabulary(folder, config={"do_lower_case": True, "model_max_length": 512})
    names = {"architectures": ["BertForSequenceClassification"], **fields}
    made.write_config(folder, **{**model.config.to_dict(), **names})
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder
