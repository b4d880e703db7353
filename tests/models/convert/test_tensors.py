import pytest
import torch

from raypipe.errors import InputError
from raypipe.models.convert.checkpoint import named_as_torch, rename
from raypipe.models.folder.settings import Conventions, PairConventions

CONFIG = {
    "hidden_size": 4, "intermediate_size": 6, "max_position_embeddings": 16,
    "num_attention_heads": 2, "num_hidden_layers": 1, "type_vocab_size": 2, "vocab_size": 9,
}  # fmt: skip


ENCODER = Conventions(
    pooling="mean", normalise=False, query_segment=0, passage_segment=1, query_limit=3,
    passage_limit=6,
)  # fmt: skip


def duo(row):
    return PairConventions(
        kind="duo", query_limit=3, passage_limit=4, total_limit=16, relevant_label=1,
        score="probability", segment_row=row,
    )  # fmt: skip


def model_tensors(units, segments=2):
    from raypipe.models.bert.family import FAMILY

    shapes = FAMILY.files.expected_shapes({**CONFIG, "type_vocab_size": segments}, num_labels=units)
    return {name: torch.full(shape, float(n)) for n, (name, shape) in enumerate(shapes.items())}


SEGMENTS = "bert.embeddings.token_type_embeddings.weight"


def test_a_third_row_is_the_commands_or_the_conventions_own():
    table = torch.tensor([[1.0] * 4, [2.0] * 4])
    tensors = {**model_tensors(2), "embeddings.token_type_embeddings.weight": table}
    for asked, held, last in (("zero", "copy", 0), (None, "copy", 2), ("copy", None, 2)):
        found = rename(tensors, CONFIG, duo(held), segment_row=asked)
        assert found.tensors[SEGMENTS].tolist() == [[1] * 4, [2] * 4, [last] * 4]
        assert found.segment_row == {"row": 2, "from": asked or held}
        assert found.segment_rows == 3
    whole = rename(model_tensors(2, segments=3), CONFIG, duo(None), segment_row=None)
    assert whole.segment_row is None and whole.segment_rows == 3
    with pytest.raises(InputError, match="expected a duoBERT model, found encoder"):
        rename(model_tensors(None), CONFIG, ENCODER, segment_row="zero")
    without = {n: t for n, t in tensors.items() if "token_type" not in n}
    with pytest.raises(InputError, match="lacks the tensor embeddings.token_type_embeddings"):
        rename(without, CONFIG, duo("zero"), segment_row=None)


def test_an_encoder_leaves_its_head_behind_and_tells_what_was_left():
    tensors = model_tensors(2)
    gamma = tensors.pop("embeddings.LayerNorm.weight")
    tensors["embeddings.LayerNorm.gamma"] = gamma
    tensors["lost"] = torch.ones(1)
    found = rename(named_as_torch(tensors), CONFIG, ENCODER, segment_row=None)
    assert found.left_out == ["classifier.bias", "classifier.weight", "lost"]
    assert torch.equal(found.tensors["embeddings.LayerNorm.weight"], gamma)
    assert len(found.tensors) == 5 + 16 + 2  # the pooler stays
    tensors["bert.embeddings.LayerNorm.weight"] = gamma
    with pytest.raises(InputError, match="two tensors have the same name: bert.emb.* and emb"):
        rename(named_as_torch(tensors), CONFIG, ENCODER, segment_row=None)


def test_names_of_every_writer_are_read():
    for written, read in [
        ("module.bert.pooler.dense.weight", "bert.pooler.dense.weight"),
        ("_orig_mod.module.embeddings.LayerNorm.gamma", "embeddings.LayerNorm.weight"),
        ("bert.embeddings.LayerNorm.beta", "bert.embeddings.LayerNorm.bias"),
        ("output_bias", "classifier.bias"),
        ("output_weights:0", "classifier.weight"),
        ("bert/embeddings/token_type_embeddings:0", SEGMENTS),
        ("bert/encoder/layer_11/output/dense/bias", "bert.encoder.layer.11.output.dense.bias"),
        ("bert/embeddings/LayerNorm/gamma:0", "bert.embeddings.LayerNorm.weight"),
        *[(name, name) for name in ("bert/pooler/dense/kernel/adam_m", "global_step", "x:0")],
    ]:  # fmt: skip
        assert [*named_as_torch({written: torch.zeros(2, 3)})] == [read]
    kernel = torch.arange(6.0).view(2, 3)
    named = named_as_torch(
        {"bert/encoder/layer_1/output/dense/kernel:0": kernel, "a.kernel": kernel}
    )
    assert torch.equal(named["bert.encoder.layer.1.output.dense.weight"], kernel.T)
    assert torch.equal(named["a.kernel"], kernel)


@pytest.mark.parametrize("wrapper", ["module.", "model.", "_orig_mod.module.", "0.auto_model."])
def test_a_wrapper_of_some_tensors_alone_goes_too(wrapper):
    """A trainer's loss, or a head beside the wrapped body, has none."""
    tensors = model_tensors(2)
    wrapped = {n if n.startswith("class") else f"{wrapper}{n}": t for n, t in tensors.items()}
    wrapped["loss.weight"] = torch.ones(1)
    found = rename(named_as_torch(wrapped), CONFIG, ENCODER, segment_row=None)
    plain = rename(named_as_torch(tensors), CONFIG, ENCODER, segment_row=None)
    assert found.tensors.keys() == plain.tensors.keys()
    assert found.left_out == [*plain.left_out, "loss.weight"]


def test_a_wrapped_tensor_beside_one_without_is_ambiguous():
    tensors = model_tensors(2)
    tensors["module.embeddings.LayerNorm.bias"] = torch.ones(32)
    with pytest.raises(InputError, match="the same name: embeddings.Lay.* and module.emb"):
        rename(named_as_torch(tensors), CONFIG, ENCODER, segment_row=None)
