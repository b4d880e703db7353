"""A training whose one weight counts its steps."""

from types import SimpleNamespace

import torch

from raypipe.config.training import Validate
from raypipe.storage.posix import PosixStorage
from raypipe.storage.spec import StageSpec
from raypipe.training import fit
from raypipe.training.checkpoints import Checkpoints
from raypipe.training.comm import Comm


class Course:
    """A training whose one weight counts its steps."""

    def __init__(self, tmp_path, monkeypatch, **recipe):
        given = {"steps": 10, "checkpoint_every": 4, "validate_": Validate(every=3), "dev": ["d"],
                 "masking": None,
                 "resources": SimpleNamespace(precision="fp32"), **recipe}  # fmt: skip
        self.spec = StageSpec("train", 1)
        self.job = SimpleNamespace(
            recipe=SimpleNamespace(**given), storage=PosixStorage(tmp_path), store="train-x",
            folder=f"train-x/{self.spec.fingerprint()}", spec=self.spec,
            is_pretraining=False,
        )  # fmt: skip
        self.told, self.steps, self.measured, self.settled = [], [], [], []
        self.opened = {"loops": 0, "dev": 0}
        monkeypatch.setattr(fit, "Updates", self._loop)
        monkeypatch.setattr(fit, "DevMeasures", self._measuring)
        monkeypatch.setattr(fit, "make_deterministic", lambda *given: self.settled.append(given))

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
        fit.fit(self.job, comm or Comm(), device="cpu", threads=threads, tell=self.told.append,
                **options)  # fmt: skip

    def forget(self, *steps):
        """As if an interruption came before these measurements."""
        for step in steps:
            folder = self.job.storage.root / self.job.folder / "measurements"
            (folder / f"{step:07d}.json").unlink()

    @property
    def checkpoints(self):
        found = Checkpoints(self.job.storage, self.job.folder)
        return [step for step in range(20) if found.has(step)]

    def kinds(self, name):
        return [event["step"] for event in self.told if name in event]


class Second(Comm):
    """The second of two workers: sums hold what the first one has."""

    rank, world = 1, 2

    def __init__(self, answers=()):
        self.answers = list(answers)

    def sum_(self, tensors):
        if self.answers:
            tensors[0].add_(self.answers.pop(0))
