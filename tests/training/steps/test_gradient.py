"""A global batch's gradient is one, whoever computes it: workers, packing, transformers."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gradients
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import (
    AutoTokenizer,  # noqa: F401  (transformers' own forward is the oracle)
    BertConfig,
    BertForSequenceClassification,
)

from raypipe.text.inputs import TextSlice
from raypipe.training.batch import Batch
from raypipe.training.comm import Comm
from raypipe.training.losses import Objective
from raypipe.training.steps import backward, share_of

SCRIPT = Path(__file__).parents[2] / "helpers" / "gradients.py"
TOLERANCE = 1e-5
"""Times the largest gradient."""
OF_LISTS = 1e-3
"""The same for listwise: what a tiny model's nearly equal scores share cancels."""


@pytest.fixture(scope="module")
def own():
    import gradients

    return gradients


def assert_equal_gradients(found, expected, tolerance=TOLERANCE):
    assert found.keys() == expected.keys()
    largest = max(gradient.abs().max().item() for gradient in expected.values())
    assert largest > 0
    for name, gradient in expected.items():
        difference = (found[name] - gradient).abs().max().item()
        assert difference <= tolerance * largest, name


@pytest.mark.parametrize("kind", ["mono", "duo", "low-rank", "listwise"])
def test_packed_and_one_by_one_agree(own, tiny_model, kind):
    from raypipe.training.comm import Comm

    packed = own.gradients(*own.make_trainee(tiny_model, kind), kind, Comm(), budget=100_000)
    single = own.gradients(*own.make_trainee(tiny_model, kind), kind, Comm(), budget=1)
    assert packed[0].item() == pytest.approx(single[0].item(), rel=1e-5)
    assert_equal_gradients(packed[1], single[1], OF_LISTS if kind == "listwise" else TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.long)])
def test_several_workers_give_the_gradient_of_one(own, tiny_model, tmp_path, world):
    kinds = list(own.KINDS)
    command = [sys.executable, str(SCRIPT), str(tmp_path), str(tiny_model), ",".join(kinds)]
    workers = [subprocess.Popen([*command, str(rank), str(world), "200"]) for rank in range(world)]
    assert [worker.wait() for worker in workers] == [0] * world
    found = load_file(tmp_path / f"gradients-{world}.safetensors")
    from raypipe.training.comm import Comm

    for kind in kinds:
        loss, expected = own.gradients(*own.make_trainee(tiny_model, kind), kind, Comm())
        of_kind = {
            name.removeprefix(f"{kind} "): gradient
            for name, gradient in found.items()
            if name.startswith(f"{kind} ")
        }
        assert of_kind.pop("loss").item() == pytest.approx(loss.item(), rel=1e-5)
        assert_equal_gradients(of_kind, expected, OF_LISTS if kind == "listwise" else TOLERANCE)


def padded(trainee, layouts, batch, path):
    """transformers' model with the trainee's weights, the arguments of its forward, the targets."""
    from raypipe.training.batch import pair_inputs_of

    model = BertForSequenceClassification(BertConfig.from_pretrained(path)).eval()
    state = {name: weight.detach() for name, weight in trainee.weights.items()}
    model.load_state_dict(state, strict=False)
    inputs = pair_inputs_of(batch, trainee.conventions, layouts["pair"])
    longest = int(inputs.lengths.max())
    ids = torch.zeros(len(inputs.lengths), longest, dtype=torch.long)
    mask, segments = torch.zeros_like(ids), torch.zeros_like(ids)
    for row in range(len(ids)):
        parts = [inputs.query, *inputs.passages]
        texts = [p.flat[p.starts[row] : p.starts[row] + p.counts[row]].tolist() for p in parts]
        cls_id, sep_id = layouts["pair"].first, layouts["pair"].last
        tokens = [cls_id, *texts[0], sep_id, *texts[1], sep_id]
        ids[row, : len(tokens)] = torch.tensor(tokens)
        mask[row, : len(tokens)] = 1
        segments[row, len(texts[0]) + 2 : len(tokens)] = 1
    arguments = {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}
    return model, arguments, inputs.targets


def test_the_gradient_is_that_of_transformers_padded_batch(own, tiny_model):
    from raypipe.training.comm import Comm

    trainee, layouts = own.make_trainee(tiny_model, "mono")
    batch = own.make_batch()
    loss, found = own.gradients(trainee, layouts, "mono", Comm(), batch=batch)
    model, arguments, targets = padded(trainee, layouts, batch, tiny_model)
    logits = model(**arguments).logits
    expected = torch.nn.functional.cross_entropy(logits, torch.from_numpy(targets).long())
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    theirs = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert_equal_gradients({name: found[name] for name in theirs}, theirs)


def test_low_rank_weights_give_the_gradients_that_peft_gives(own, tiny_model):
    import peft

    from raypipe.training.comm import Comm

    trainee, layouts = own.make_trainee(tiny_model, "low-rank")
    batch = own.make_batch(num_examples=3)
    _, found = own.gradients(trainee, layouts, "low-rank", Comm(), batch=batch)
    base = own.make_trainee(tiny_model, "mono")[0]
    model = BertForSequenceClassification(BertConfig.from_pretrained(tiny_model)).eval()
    model.load_state_dict({n: w.detach() for n, w in base.weights.items()}, strict=False)
    config = peft.LoraConfig(
        task_type="SEQ_CLS",
        r=2,
        lora_alpha=4.0,
        target_modules=["query", "key", "value", "dense"],
        modules_to_save=["classifier"],
    )
    model = peft.get_peft_model(model, config).eval()
    names = {
        n: n.replace(".default", "").replace(".modules_to_save", "")
        for n, _ in model.named_parameters()
    }
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            key = names[name].removeprefix("base_model.model.")
            if parameter.requires_grad:
                parameter.copy_(trainee.weights[key])
    from raypipe.text.inputs import make_inputs
    from raypipe.training.batch import pair_inputs_of

    inputs = pair_inputs_of(batch, trainee.conventions, layouts["pair"])
    packed = make_inputs([inputs.query, *inputs.passages], layouts["pair"])
    total = torch.zeros(())
    start = 0
    for row, length in enumerate(packed.lengths.tolist()):
        span = slice(start, start + length)
        logits = model(
            input_ids=torch.from_numpy(packed.ids[span])[None],
            token_type_ids=torch.from_numpy(packed.segments[span])[None],
        ).logits
        target = torch.tensor([int(inputs.targets[row])])
        total = total + torch.nn.functional.cross_entropy(logits, target) / len(packed.lengths)
        start += length
    total.backward()
    theirs = {
        names[n].removeprefix("base_model.model."): p.grad
        for n, p in model.named_parameters()
        if p.requires_grad
    }
    assert_equal_gradients(found, theirs)


def test_recomputing_layers_changes_no_gradient_and_dropout_is_drawn_by_step(own, tiny_model):
    from raypipe.training.comm import Comm

    def run(draw=(0, 0), **settings):
        trainee, layouts = own.make_trainee(tiny_model, "mono", **settings)
        return own.gradients(trainee, layouts, "mono", Comm(), draw=draw)

    dropped = run(dropout=0.3)
    again = run(dropout=0.3)
    assert dropped[0].item() == again[0].item()
    assert dropped[0].item() != run(dropout=0.3, draw=(0, 1))[0].item()
    recomputed = run(dropout=0.3, recompute=True)
    assert recomputed[0].item() == pytest.approx(dropped[0].item(), rel=1e-6)
    assert_equal_gradients(recomputed[1], dropped[1])
    # What the head reads is dropped too: a number dropped of every input moves no weight.
    zeros = [run(dropout=p)[1]["classifier.weight"].eq(0).sum().item() for p in (0.0, 0.9)]
    assert zeros[0] == 0 < zeros[1]


def test_bf16_is_near_fp32(own, tiny_model):
    from raypipe.training.comm import Comm

    exact = own.gradients(*own.make_trainee(tiny_model, "mono"), "mono", Comm())
    half = own.gradients(*own.make_trainee(tiny_model, "mono", bf16=True), "mono", Comm())
    assert half[0].item() == pytest.approx(exact[0].item(), rel=2e-2)


def plain_vectors(model, part, layout, limit, segment):
    """Means over transformers' last hidden states of each text, [CLS] and [SEP] too, no norm."""
    out = []
    for start, count in zip(part.starts, part.counts, strict=True):
        pieces = part.flat[start : start + min(count, limit)].tolist()
        ids = torch.tensor([[layout.first, *pieces, layout.last]])
        hidden = model(input_ids=ids, token_type_ids=torch.full_like(ids, segment))
        out.append(hidden.last_hidden_state[0].mean(dim=0))
    return torch.stack(out)


def plain_encoder(trainee, layouts, batch, path):
    """transformers' model with the trainee's weights, and its vectors of the batch's texts."""
    from transformers import BertModel

    model = BertModel(BertConfig.from_pretrained(path), add_pooling_layer=False).eval()
    named = {n.removeprefix("bert."): w.detach() for n, w in trainee.weights.items()}
    model.load_state_dict(named, strict=False)
    queries = plain_vectors(model, batch.query, layouts["query"], 12, 0)
    return model, queries, plain_vectors(model, batch.passage, layouts["passage"], 40, 1)


def assert_like_transformers(model, loss, found, expected):
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    theirs = {f"bert.{n}": p.grad for n, p in model.named_parameters() if p.grad is not None}
    assert_equal_gradients({name: found[name] for name in theirs}, theirs)


@pytest.mark.parametrize("kind", ["encoder", "encoder-nce"])
def test_an_encoders_gradient_is_that_of_transformers_vectors(own, tiny_model, kind):
    from raypipe.training.comm import Comm

    trainee, layouts = own.make_trainee(tiny_model, kind)
    batch = own.make_batch()
    loss, found = own.gradients(trainee, layouts, kind, Comm(), batch=batch)
    model, queries, passages = plain_encoder(trainee, layouts, batch, tiny_model)
    scores = queries @ passages.T
    positive = torch.from_numpy(batch.positive)
    if kind == "encoder":
        targets = torch.full(positive.shape, -1)
        for row, known in enumerate(positive):
            (places,) = known.nonzero(as_tuple=True)
            targets[row, : len(places)] = places
        expected = torch.nn.MultiLabelMarginLoss()(scores, targets)
    else:
        own_place = torch.arange(len(scores)) * batch.num_passages
        others = positive.clone()
        others[torch.arange(len(scores)), own_place] = False
        kept = scores.masked_fill(others, float("-inf"))
        expected = torch.nn.functional.cross_entropy(kept, own_place)
    assert_like_transformers(model, loss, found, expected)


@pytest.mark.parametrize("kind", ["encoder-mse", "encoder-kl"])
def test_an_encoder_learns_from_a_teacher_by_the_products_of_each_list(own, tiny_model, kind):
    """No example sees another's passages; one without the teacher's scores counts as 0."""
    from raypipe.training.comm import Comm

    trainee, layouts = own.make_trainee(tiny_model, kind)
    batch = own.make_batch(num_examples=5, num_passages=4)
    batch.teacher[3, 2] = float("nan")
    loss, found = own.gradients(trainee, layouts, kind, Comm(), batch=batch)
    model, queries, passages = plain_encoder(trainee, layouts, batch, tiny_model)
    s = (queries[:, None] * passages.view(5, 4, -1)).sum(dim=2)[[0, 1, 2, 4]]
    t = torch.from_numpy(batch.teacher)[[0, 1, 2, 4]]
    if kind == "encoder-mse":
        margins = (s[:, :1] - s[:, 1:]) - (t[:, :1] - t[:, 1:])
        each = margins.square().mean(dim=1)
    else:
        p = t.softmax(dim=1)
        each = (p * (p / s.softmax(dim=1)).log()).sum(dim=1)
    assert_like_transformers(model, loss, found, each.sum() / 5)


def test_the_gradient_of_listwise_is_that_of_plain_products_over_whole_lists(own, tiny_model):
    """The log odds of transformers' one forward, blended and softmaxed here."""
    from raypipe.training.comm import Comm

    trainee, layouts = own.make_trainee(tiny_model, "listwise")
    batch = own.make_batch(num_examples=5, num_passages=4, unlabelled=True)
    loss, found = own.gradients(trainee, layouts, "listwise", Comm(), batch=batch, budget=300)
    model, arguments, _ = padded(trainee, layouts, batch, tiny_model)
    logits = model(**arguments).logits
    s = (logits[:, 1] - logits[:, 0]).view(5, 4) + 3.0 * torch.from_numpy(batch.first_stage)
    listwise = -s.softmax(dim=1)[:, 0].log() * torch.from_numpy(batch.judged)
    taught = torch.from_numpy(batch.teacher).softmax(dim=1)
    kl = (taught * (taught / s.softmax(dim=1)).log()).sum(dim=1)
    expected = (listwise + 0.5 * kl).mean()
    assert 0 < batch.judged.sum() < 5
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    expected.backward()
    theirs = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert_equal_gradients({name: found[name] for name in theirs}, theirs, OF_LISTS)


@pytest.mark.parametrize(("rank", "share"), [(0, [1, 0]), (1, [2, 3])])
def test_examples_are_dealt_out_by_length(rank, share):
    own = SimpleNamespace(rank=rank, world=2)
    assert share_of(np.array([5, 1, 2, 9]), own).tolist() == share
    assert (
        share_of(np.array([5, 1, 2, 9]), SimpleNamespace(rank=1 - rank, world=2), rank).tolist()
        == share
    )


def test_an_encoders_tokens_are_those_of_queries_and_passages_with_their_specials(tiny_model):
    trainee, layouts = gradients.make_trainee(tiny_model, "encoder")
    flat = np.full(30, 7, np.uint16)
    query = TextSlice(flat, np.zeros(2, np.int64), np.array([3, 4]))
    passage = TextSlice(flat, np.zeros(4, np.int64), np.array([5, 0, 6, 1]))
    positive = np.eye(2, 4, dtype=bool)
    batch = Batch(query, passage, 2, positive, None)
    given = (trainee, batch, Objective("multi-label-margin"), Comm(), layouts)
    worked = backward(*given, budget_tokens=99, weight=1.0, draw=(0,))
    assert worked.num_tokens == 3 + 4 + 5 + 0 + 6 + 1 + 2 * 6 and torch.isfinite(worked.loss)
