"""What an invocation tells, and the devices it takes, by hand."""

import json
import os
from types import SimpleNamespace

import pytest

from raypipe.driver.machine import devices
from raypipe.driver.machine.devices import Devices, choose, nvidia_devices, of_cluster
from raypipe.driver.report.summary import summary_of
from raypipe.driver.report.table import Row, render
from raypipe.driver.training.curves import Curves, ordered, values_of
from raypipe.driver.training.table import training_table
from raypipe.errors import InputError
from raypipe.evaluation.difference import Difference
from raypipe.storage.files import replace_file


@pytest.fixture
def machine(monkeypatch):
    """A machine with so many cores and GPUs."""
    import torch

    def made(cores, gpus=0, visible=None):
        monkeypatch.setattr(devices, "num_cores", lambda: cores)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda place: f"GPU {place}")
        names = [f"GPU {n}" for n in range(gpus)] if visible is None else visible
        monkeypatch.setattr(devices, "nvidia_devices", lambda: names)

    return made


@pytest.mark.parametrize(
    ("cores", "asked", "actors", "threads"),
    [
        (4, {}, 4, 1),
        (8, {}, 8, 1),
        (20, {}, 8, 2),
        (1, {}, 1, 1),
        (10, {"actors": 3}, 3, 3),
        (2, {"actors": 5}, 5, 1),
        (10, {"threads": 7}, 8, 7),
        (10, {"actors": "2", "threads": "3"}, 2, 3),
    ],
)
def test_cores_are_shared_among_at_most_eight_actors(machine, cores, asked, actors, threads):
    machine(cores)
    found = choose(**asked)
    assert (found.device, found.num_actors, found.threads) == ("cpu", actors, threads)
    assert (found.num_gpus, found.gpus_visible, found.gpu_name) == (0, 0, "")


def test_every_gpu_of_the_machine_gets_an_actor_unless_told_otherwise(machine):
    machine(16, gpus=4)
    found = choose()
    assert (found.device, found.num_gpus, found.num_actors, found.threads) == ("cuda", 4, 4, 1)
    assert (found.gpus_visible, found.gpu_name) == (4, "GPU 0")
    found = choose("cuda", gpus=2, threads=3)
    assert (found.num_gpus, found.num_actors, found.threads, found.gpus_visible) == (2, 2, 3, 4)
    assert choose(gpus=4, actors=6).num_actors == 6
    assert choose("cpu").device == "cpu"
    with pytest.raises(InputError, match="5 asked for, 4 can be used"):
        choose(gpus=5)


def test_a_gpu_that_torch_cannot_use_is_no_cpu(machine):
    machine(4, visible=["NVIDIA X"])
    with pytest.raises(InputError, match=r"auto: 1 NVIDIA device\(s\) are here \(NVIDIA X\)"):
        choose()
    assert choose("cpu").device == "cpu"
    machine(4)
    with pytest.raises(InputError, match=r"cuda: 0 NVIDIA device\(s\) are here \(none\)"):
        choose("cuda")


def test_the_driver_is_asked_for_its_devices(monkeypatch, tmp_path):
    program = tmp_path / "nvidia-smi"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert nvidia_devices() == []
    program.write_text("#!/bin/sh\necho NVIDIA A\necho NVIDIA B\n")
    program.chmod(0o755)
    assert nvidia_devices() == ["NVIDIA A", "NVIDIA B"]
    program.write_text("#!/bin/sh\necho no driver\nexit 9\n")
    assert nvidia_devices() == []


def test_a_clusters_cores_are_divided_by_the_threads_of_an_actor():
    def cpu(resources, **asked):
        found = of_cluster(resources, **asked)
        assert found.device == "cpu"
        return found.num_actors, found.threads

    assert cpu({"CPU": 12.0}) == (12, 1) and cpu({"CPU": 13.0}, threads=4) == (3, 4)
    assert cpu({"CPU": 2.0}, threads=4) == (1, 4) and cpu({"CPU": 9.0}, actors=2) == (2, 1)
    assert cpu({}, threads=1)[0] == devices.num_cores() >= 1
    assert cpu({"CPU": 3.0, "GPU": 2.0}, device="cpu") == (3, 1)


def test_the_line_of_the_devices():
    cpu = Devices("cpu", 0, "", 0, 1, 4, "2.13")
    assert cpu.line() == "device: CPU, torch 2.13, fp32, 1 actor x 4 threads"
    two = Devices("cpu", 0, "", 0, 2, 1, "2.13")
    assert two.line() == "device: CPU, torch 2.13, fp32, 2 actors x 1 threads"
    gpus = Devices("cuda", 2, "H", 8, 2, 1, "2.13")
    assert gpus.line() == "device: 2 x H (of 8 visible), torch 2.13, fp32, 2 actors"


def test_a_table_has_n_in_its_header_and_differences_below():
    rows = [
        Row("bm25", "", "", {"RR@10": 0.25, "R@1000": 1.0}, None, ""),
        Row(
            "mono", "bm25", "m", {"RR@10": 0.5, "R@1000": 1.0}, 12.345, "MS MARCO",
            {"RR@10": Difference(0.25, -0.125, 0.5), "R@1000": Difference(0.0, 0.0, 0.0)},
        ),
        Row("duo", "mono", "m", {"RR@10": 0.0, "R@1000": 1.0}, 3.0, "MS MARCO"),
    ]  # fmt: skip
    text = render(
        "dev", rows, measures=["RR@10", "R@1000"], num_topics={"RR@10": 3, "R@1000": 4},
        baseline="bm25", notes=["a note"],
    )  # fmt: skip
    assert text == (
        "## dev\n"
        "\n"
        "| system | reranks | model | RR@10 (n=3) | R@1000 (n=4) | ms/query |\n"
        "|--------|---------|-------|-------------|--------------|----------|\n"
        "| bm25   |         |       | 0.2500      | 1.0000       | -        |\n"
        "| mono   | bm25    | m     | 0.5000      | 1.0000       | 12.3     |\n"
        "| duo    | mono    | m     | 0.0000      | 1.0000       | 3.0      |\n"
        "\n"
        "Difference to bm25, with a 95% interval:\n"
        "\n"
        "| system | RR@10                      | R@1000                     |\n"
        "|--------|----------------------------|----------------------------|\n"
        "| mono   | +0.2500 [-0.1250, +0.5000] | +0.0000 [+0.0000, +0.0000] |\n"
        "\n"
        "- m: its start weights saw MS MARCO\n"
        "- a note\n"
    )
    alone = render(
        "dev", rows[:1], measures=["RR@10"], num_topics={"RR@10": 3}, baseline=None, notes=[]
    )
    assert alone.count("\n") == 6 and "Difference" not in alone
    without = render(
        "dev", rows, measures=["RR@10"], num_topics={"RR@10": 3}, baseline=None, notes=[]
    )
    assert "Difference" not in without


def job(**recipe):
    given = {"name": "mine", "dev": ["a", "b"], "validate_": SimpleNamespace(measure="RR@10")}
    return SimpleNamespace(recipe=SimpleNamespace(**{**given, **recipe}))


def test_the_first_of_the_best_checkpoints_is_marked_as_chosen():
    history = [
        {"step": 10, "mean": 0.25, "values": [0.25, 0.25]},
        {"step": 2000, "mean": 0.5, "values": [0.25, 0.75]},
        {"step": 3000, "mean": 0.5, "values": [0.5, 0.5]},
    ]
    assert training_table(job(), history, ["told"], "books") == (
        "# mine\n\nRR@10 on dev sets:\n\n| step | a | b | mean |\n|---|---|---|---|\n"
        "| 10 | 0.2500 | 0.2500 | 0.2500 |\n"
        "| 2,000 (chosen) | 0.2500 | 0.7500 | 0.5000 |\n"
        "| 3,000 | 0.5000 | 0.5000 | 0.5000 |\n\n"
        "- the model is the checkpoint that is best here: these are no test figures\n"
        "- told\n- its weights have seen: books\n"
    )
    once = training_table(job(), history[:1], [], "x")
    assert "(chosen)" not in once and "measured once: nothing was chosen" in once
    assert training_table(job(), [], [], "x") == "# mine\n\n- its weights have seen: x\n"


STEP = {"step": 2, "loss": 0.5, "rate": 0.1}
ONE = {"step": 2, "mean": 0.25, "of": {"dev": 0.25}, "measure": "RR"}
TWO = {"step": 4, "mean": 0.5, "of": {"a": 0.25, "b": 0.75}, "measure": "RR"}


def test_of_a_step_told_twice_the_last_line_stands_and_notes_are_no_point():
    note = {"step": 2, "note": "resumed"}
    newer = {**STEP, "loss": 0.25}
    assert ordered([TWO, STEP, note, ONE, newer]) == [newer, ONE, TWO]
    assert values_of(STEP) == STEP and values_of(ONE) == {"dev": 0.25}
    assert values_of(TWO) == {"a": 0.25, "b": 0.75, "mean": 0.5}


def test_curves_hold_every_number_of_a_step_but_the_step(tmp_path, monkeypatch):
    import tensorboardX

    points = []

    class Writer:
        def __init__(self, folder, **settings):
            self.folder = folder

        def add_scalar(self, name, value, step):
            points.append((name, value, step))

        def close(self):
            points.append("closed")

    monkeypatch.setattr(tensorboardX, "SummaryWriter", Writer)
    (tmp_path / "train" / "tensorboard").mkdir(parents=True)
    (tmp_path / "train" / "tensorboard" / "old").write_text("x")
    curves = Curves(tmp_path / "train", [STEP])
    assert not (tmp_path / "train" / "tensorboard" / "old").exists()
    curves.add({"step": 3, "note": "x"})
    curves.add(TWO)
    curves.add({"step": 5, "device": "cpu", "loss": 1})
    curves.close()
    assert points == [
        ("train/loss", 0.5, 2), ("train/rate", 0.1, 2),
        ("RR/a", 0.25, 4), ("RR/b", 0.75, 4), ("RR/mean", 0.5, 4), ("train/loss", 1, 5), "closed",
    ]  # fmt: skip
    lines = (tmp_path / "train" / "progress.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [2, 4, 5]


def test_a_summary_counts_each_stores_shards():
    result = SimpleNamespace(
        seconds=1.23456, num_rows=9, num_shards=4, num_shards_reused=3, num_quarantined=1,
        coverage=0.5, reused=False, fingerprint="f",
    )  # fmt: skip
    measurement = SimpleNamespace(systems={"s": 1}, means={"m": 2})
    chosen = Devices("cpu", 0, "", 0, 1, 4, "2.13")
    found = summary_of(measurement, {"x": result}, chosen)
    assert found["stages"]["x"] == {
        "seconds": 1.23, "rows": 9, "coverage": 0.5, "reused": False, "fingerprint": "f",
        "shards": {"planned": 4, "reused": 3, "quarantined": 1},
    }  # fmt: skip
    assert found["device"] == "CPU, torch 2.13, fp32, 1 actor x 4 threads"
    assert (found["systems"], found["measures"]) == ({"s": 1}, {"m": 2})
    assert found["versions"]["torch"] == "2.13"


def test_a_replaced_file_is_whole_and_an_equal_one_left_untouched(tmp_path):
    path = tmp_path / "a" / "x.json"
    replace_file(path, b"1")
    before = path.stat()
    replace_file(path, b"1")
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    replace_file(path, b"2")
    assert path.read_bytes() == b"2" and [p.name for p in path.parent.iterdir()] == ["x.json"]


def test_a_replaced_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    path, synced = tmp_path / "x.json", []
    monkeypatch.setattr("os.fsync", lambda fd: synced.append((os.fstat(fd).st_size, path.exists())))
    replace_file(path, b"12345")
    assert synced[0] == (5, False) and len(synced) == 2, "the file, then the folder"
