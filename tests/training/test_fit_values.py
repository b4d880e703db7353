"""The course of a training by hand: when it saves, measures, resumes and ends."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from raypipe.config.training.recipe import Validate
from raypipe.errors import InputError, RefusedError
from raypipe.storage.ledger import Ledger
from raypipe.storage.posix import PosixStorage
from raypipe.storage.spec import StageSpec
from raypipe.training import fit
from raypipe.training.checkpoints import commit as finish
from raypipe.training.checkpoints import export, measuring
from raypipe.training.checkpoints.history import History
from raypipe.training.checkpoints.store import Checkpoints
from raypipe.training.model.lowrank import LowRank, drawn, linear_names
from raypipe.training.model.worker import start_from_
from raypipe.training.steps.comm import Solo
from raypipe.training.steps.update import load_weights_


class Course:
    """A training whose one weight counts its steps."""

    def __init__(self, tmp_path, monkeypatch, **recipe):
        given = {"steps": 10, "checkpoint_every": 4, "validate_": Validate(every=3), "dev": ["d"],
                 "resources": SimpleNamespace(precision="fp32"), **recipe}  # fmt: skip
        self.spec = StageSpec("train", 1)
        self.job = SimpleNamespace(
            recipe=SimpleNamespace(**given), storage=PosixStorage(tmp_path), store="train-x",
            folder=f"train-x/{self.spec.fingerprint()}", spec=self.spec,
        )  # fmt: skip
        self.told, self.steps, self.measured, self.settled = [], [], [], []
        self.opened = {"loops": 0, "dev": 0}
        monkeypatch.setattr(fit, "Updates", self._loop)
        monkeypatch.setattr(fit, "Measuring", self._measuring)
        monkeypatch.setattr(fit, "settle", lambda *given: self.settled.append(given))

    def _loop(self, job, comm, device):
        weights = {"w": torch.zeros(1)}
        trainee = SimpleNamespace(weights=weights, device=device)
        moments = {"first.w": torch.zeros(1)}

        def step(number):
            self.steps.append(number)
            weights["w"] += 1
            moments["first.w"] += 2
            return {"tokens": 100, "loss": 0.5}

        optimiser = SimpleNamespace(
            state=lambda: moments, load=lambda state: moments["first.w"].copy_(state["first.w"])
        )
        self.weight, self.moment = weights["w"], moments["first.w"]
        return SimpleNamespace(trainee=trainee, optimiser=optimiser, step=step, budget=99)

    def _measuring(self, job):
        def values(trainee, comm):
            self.measured.append(float(trainee.weights["w"]))
            return [-abs(self.measured[-1] - 6.0)]  # best after 6 steps

        return SimpleNamespace(values=values)

    def go(self, comm=None, threads=1, **options):
        fit.fit(self.job, comm or Solo(), device="cpu", threads=threads, tell=self.told.append,
                **options)  # fmt: skip

    @property
    def checkpoints(self):
        found = Checkpoints(self.job.storage, self.job.folder)
        return [step for step in range(20) if found.has(step)]

    def kinds(self, name):
        return [event["step"] for event in self.told if name in event]


@pytest.fixture
def course(tmp_path, monkeypatch):
    return lambda **recipe: Course(tmp_path, monkeypatch, **recipe)


def test_a_training_steps_saves_and_measures_when_it_is_due(course):
    found = course()
    found.go()
    assert found.settled == [("cpu", 1)]
    assert found.steps == list(range(10)) and found.kinds("loss") == list(range(1, 11))
    assert found.measured == [3.0, 6.0, 9.0, 10.0] and found.kinds("mean") == [3, 6, 9, 10]
    # Saved after 3, 4, 6, 8, 9, 10; the newest two stay, and the best one, 6.
    assert found.checkpoints == [6, 9, 10]
    assert set(found.told[0]) == {"step", "tokens", "loss", "seconds", "tokens_per_second"}
    assert found.told[0]["seconds"] >= 0
    assert found.told[0]["tokens_per_second"] > 0
    assert found.kinds("note") == []
    newest = Checkpoints(found.job.storage, found.job.folder)
    assert newest.at(10).facts == {
        "place": {"workers": 1, "threads": 1, "budget_tokens": 99}}  # fmt: skip
    state = newest.load(newest.at(10))
    assert (state["weight.w"].item(), state["first.w"].item()) == (10.0, 20.0)


def test_without_validation_it_saves_every_so_many_steps_and_at_the_end(course):
    found = course(validate_=None, steps=9)
    saved = []
    inner = fit.Checkpoints.save
    fit.Checkpoints.save = lambda self, step, *rest: saved.append(step) or inner(self, step, *rest)
    try:
        found.go()
    finally:
        fit.Checkpoints.save = inner
    assert saved == [4, 8, 9] and found.checkpoints == [8, 9] and found.measured == []


def test_it_ends_by_patience(course):
    found = course(validate_=Validate(every=3, patience=1))
    found.go()
    assert found.steps == list(range(9)) and found.measured == [3.0, 6.0, 9.0]
    again = course(validate_=Validate(every=3, patience=1))
    again.go()
    assert again.steps == [] and again.measured == []


def stop_at(found, step):
    stop = RefusedError("stop")
    with pytest.raises(RefusedError) as caught:
        found.go(should_stop=lambda: stop if len(found.steps) == step else None)
    assert caught.value is stop


@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_stop_leaves_a_checkpoint_and_the_same_command_goes_on(course, step):
    first = course()
    stop_at(first, step)
    assert first.checkpoints[-1] == step
    second = course()
    second.go()
    assert second.steps == list(range(step, 10))
    assert (float(second.weight), float(second.moment)) == (10.0, 20.0)
    assert first.measured + second.measured == [3.0, 6.0, 9.0, 10.0]
    assert second.kinds("note") == []


def test_another_place_is_told_where_a_training_is_resumed(course):
    stop_at(course(), 2)
    found = course()
    found.go(threads=2)
    (note,) = [event for event in found.told if "note" in event]
    assert note["step"] == 2 and note["note"].startswith("resumed on {'workers': 1, 'threads': 2")
    assert "'threads': 1" in note["note"].split("before on")[1]


def test_beside_a_measurer_nothing_is_measured_here_and_checkpoints_wait_for_it(course):
    found = course()
    found.go(beside=True)
    assert found.measured == [] and found.kinds("mean") == []
    assert found.checkpoints == [3, 6, 9, 10], "what is still to be measured is kept"
    late = course()
    late.go()
    assert late.steps == [] and late.measured == [3.0, 6.0, 9.0, 10.0]
    assert float(late.weight) == 10.0, "the weights of the newest step are back"


def test_measurements_that_are_missing_need_their_checkpoints(course):
    found = course()
    found.go(beside=True)
    Checkpoints(found.job.storage, found.job.folder)._remove(6)
    with pytest.raises(InputError, match="train-x: the checkpoints of 1 steps, first 6, are"):
        course().go()


class Second(Solo):
    """The second of two workers: sums hold what the first one has."""

    rank, world = 1, 2

    def __init__(self, answers=()):
        self.answers = list(answers)

    def sum_(self, tensors):
        if self.answers:
            tensors[0].add_(self.answers.pop(0))


def test_the_other_workers_tell_and_save_nothing(course):
    found = course(validate_=None)
    found.go(Second())
    assert found.told == [] and found.checkpoints == [] and len(found.steps) == 10


def test_a_worker_ends_with_the_first_one_where_another_could_not_open(course, monkeypatch):
    found = course()
    with pytest.raises(InputError, match=fit.ELSEWHERE):
        found.go(Second([1.0]))

    def broken(job):
        raise InputError("no relevant passage")

    monkeypatch.setattr(fit, "Measuring", broken)
    with pytest.raises(InputError, match="no relevant passage"):
        found.go()
    assert found.steps == []


# The end


def test_the_best_checkpoint_is_committed_and_the_last_where_none_is_measured(course):
    found = course()
    found.go()
    finish.commit(found.job, device="cpu")
    ledger = Ledger(found.job.storage, "train-x", found.spec)
    record = ledger.record(ledger.shards[0])
    assert (record.facts["step"], record.facts["rows"]) == (6, 1)
    assert [each["step"] for each in record.facts["history"]] == [3, 6, 9, 10]
    assert record.facts["numerics"].endswith(", fp32")
    tensors = load_file(found.job.storage.local(record.sha256))
    assert {name: t.item() for name, t in tensors.items()} == {"w": 6.0}


def test_the_last_is_committed_where_nothing_is_measured(course):
    found = course(validate_=None)
    found.go()
    finish.commit(found.job, device="cpu")
    ledger = Ledger(found.job.storage, "train-x", found.spec)
    record = ledger.record(ledger.shards[0])
    assert (record.facts["step"], record.facts["history"]) == (10, [])


def test_nothing_is_committed_while_a_measurement_is_missing(course):
    found = course()
    found.go(beside=True)
    with pytest.raises(InputError, match="the checkpoints of 4 steps, first 3"):
        finish.commit(found.job, device="cpu")


@pytest.fixture(autouse=True)
def planned(course, monkeypatch):
    """The driver has planned the store of one shard before its workers commit."""
    from raypipe.storage.records import Shard

    inner = finish.Ledger
    monkeypatch.setattr(
        finish, "Ledger", lambda storage, store, spec: inner(storage, store, spec, [Shard(0, 0, 1)])
    )


# What is told and kept


def test_a_measurement_is_told_by_dev_set():
    recipe = SimpleNamespace(dev={"a": 1, "b": 2}, validate_=Validate(every=3, measure="RR@10"))
    told = measuring.progress_of(
        SimpleNamespace(recipe=recipe), {"step": 3, "mean": 0.5, "values": [0.25, 0.75]}
    )
    assert told == {"step": 3, "measure": "RR@10", "mean": 0.5, "of": {"a": 0.25, "b": 0.75}}


def test_queries_without_candidates_are_told_once_by_the_first_worker(monkeypatch):
    warned = []
    monkeypatch.setattr(measuring, "dev_of", lambda job: [])
    monkeypatch.setattr(measuring, "specials_of", lambda job: None)
    monkeypatch.setattr(measuring, "measured", lambda *given, warn: warned.append(warn) or [0.5])
    job = SimpleNamespace(recipe=SimpleNamespace(validate_=Validate(every=3)), start=None)
    own = measuring.Measuring(job)
    assert [own.values(None, Solo()) for _ in range(2)] == [[0.5], [0.5]]
    measuring.Measuring(job).values(None, Second())
    assert warned == [True, False, False]


def test_weights_are_set_in_place():
    weights = {"a": torch.zeros(2), "b": torch.zeros(1)}
    load_weights_(
        SimpleNamespace(weights=weights),
        {"weight.a": torch.tensor([1.0, 2.0]), "weight.b": torch.tensor([3.0]), "first.a": None},
    )
    assert weights["a"].tolist() == [1.0, 2.0] and weights["b"].tolist() == [3.0]


# Low rank


def test_an_update_is_merged_as_its_product_times_the_scale():
    base = {"l.weight": torch.ones(2, 2), "x": torch.zeros(1), "y": torch.ones(1)}
    trained = {
        "l.lora_A.weight": torch.tensor([[1.0, 2.0]]),
        "l.lora_B.weight": torch.tensor([[3.0], [0.5]]),
        "x": torch.tensor([7.0]),
    }
    found = export.merged(base, trained, LowRank(rank=1, alpha=2))
    assert found["l.weight"].tolist() == [[7.0, 13.0], [2.0, 3.0]]
    assert sorted(found) == ["l.weight", "x", "y"] and found["x"].tolist() == [7.0]
    assert base["l.weight"].tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_layers_that_get_an_update_and_how_it_is_drawn():
    base = {
        "bert.embeddings.x.weight": torch.zeros(2, 2), "bert.encoder.a.weight": torch.zeros(3, 4),
        "bert.encoder.a.bias": torch.zeros(3), "bert.encoder.LayerNorm.weight": torch.zeros(2, 2),
        "bert.encoder.one.weight": torch.zeros(2), "bert.pooler.dense.weight": torch.zeros(4, 4),
        "classifier.weight": torch.zeros(2, 4),
    }  # fmt: skip
    assert linear_names(base, pooler=True) == ["bert.encoder.a", "bert.pooler.dense"]
    assert linear_names(base, pooler=False) == ["bert.encoder.a"]
    found = drawn(["bert.encoder.a"], base, 2, 7)
    uniform = torch.rand(2, 4, generator=torch.Generator().manual_seed(7))
    expected = (2 * uniform - 1) * 0.5  # sqrt(1 / 4)
    assert torch.equal(found["bert.encoder.a.lora_A.weight"], expected)
    assert found["bert.encoder.a.lora_B.weight"].tolist() == [[0.0, 0.0]] * 3


@pytest.fixture
def adapter(tmp_path):
    """A function that writes an adapter's folder and gives it with its hash."""
    import hashlib
    import json

    def write(tensors, rank=1, alpha=2.0):
        folder = tmp_path / "adapter"
        folder.mkdir(exist_ok=True)
        named = {f"base_model.model.{name}": tensor for name, tensor in tensors.items()}
        save_file(named, folder / "adapter_model.safetensors")
        (folder / "adapter_config.json").write_text(json.dumps({"r": rank, "lora_alpha": alpha}))
        data = (folder / "adapter_model.safetensors").read_bytes()
        return folder, hashlib.sha256(data).hexdigest()

    return write


def test_an_adapter_to_start_from_gives_what_it_has(adapter):
    folder, sha256 = adapter({"a.lora_A.weight": torch.ones(1, 2), "e.embeddings.x": torch.ones(3)})
    own = {"a.lora_A.weight": torch.zeros(1, 2), "e.embeddings.x": torch.zeros(2),
           "head.weight": torch.zeros(1)}  # fmt: skip
    start_from_(SimpleNamespace(weights=own, low_rank=LowRank(1, 2.0)), folder, sha256=sha256)
    assert own["a.lora_A.weight"].tolist() == [[1.0, 1.0]]
    assert own["e.embeddings.x"].tolist() == [0.0, 0.0] and own["head.weight"].tolist() == [0.0]


def test_an_adapter_of_another_kind_is_refused(adapter):
    weights = {"a.lora_A.weight": torch.zeros(1, 2)}
    given = SimpleNamespace(weights=weights, low_rank=LowRank(1, 2.0))
    for changed, why in (({"rank": 2}, "found rank 2 and alpha 2"), ({"alpha": 1.0}, "alpha 1.0")):
        folder, sha256 = adapter({"a.lora_A.weight": torch.ones(1, 2)}, **changed)
        with pytest.raises(InputError, match=why):
            start_from_(given, folder, sha256=sha256)
    folder, sha256 = adapter({"a.lora_A.weight": torch.ones(2, 2)})
    with pytest.raises(InputError, match=r"expected \[1, 2\], found \[2, 2\]"):
        start_from_(given, folder, sha256=sha256)
    folder, sha256 = adapter({"other": torch.ones(1)})
    with pytest.raises(InputError, match=r"expected \[1, 2\], found none"):
        start_from_(given, folder, sha256=sha256)
    with pytest.raises(InputError, match="expected an adapter with SHA-256 00"):
        start_from_(given, folder, sha256="00")
    assert weights["a.lora_A.weight"].tolist() == [[0.0, 0.0]]


def test_history_is_that_of_the_recipe(course):
    found = course(steps=7)
    assert isinstance(fit.history_of(found.job), History)
    assert fit.history_of(found.job).due(7) == [3, 6, 7]
    assert np.isclose(fit.State().step, 0) and fit.State().place == {}
