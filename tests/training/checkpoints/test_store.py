import torch

from raypipe.storage.places.posix import PosixStorage
from raypipe.training.checkpoints.store import Checkpoints


def test_only_the_newest_two_checkpoints_and_those_kept_stay(tmp_path):
    storage = PosixStorage(tmp_path)
    found = Checkpoints(storage, "train/f")
    assert found.newest() is None and not found.has(1)
    for step in (1, 2, 3, 10):
        saved = found.save(step, {"w": torch.full((2,), float(step))}, {"device": "cpu"})
        assert saved == found.at(step)
    assert found.newest().step == 10 and found.at(2).facts == {"device": "cpu"}
    assert found.load(found.at(3))["w"].tolist() == [3.0, 3.0]
    gone = found.at(1).sha256
    found.prune({2})
    assert [step for step in range(11) if found.has(step)] == [2, 3, 10]
    assert not storage.has(gone) and storage.has(found.at(2).sha256)
    found.clear()
    assert found.newest() is None
    assert [n for n in storage.names("") if n.startswith(("blobs/", "train/"))] == []
