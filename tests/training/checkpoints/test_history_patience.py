from raypipe.config.training.recipe import Validate
from raypipe.storage.posix import PosixStorage
from raypipe.training.checkpoints.history import History, best_of


def test_measurements_end_by_patience_exactly(tmp_path):
    def history(**settings):
        return History(PosixStorage(tmp_path), "t/f", Validate(every=10, **settings), 40)

    for step, value in ((10, 0.25), (20, 0.5), (30, 0.5)):
        history().add(step, [value, value + 0.5])
    assert not history(patience=2).ended(30) and history(patience=1).ended(30)
    assert not history().ended(30) and history().missing(40) == [40]
    assert history(patience=1).missing(40) == [] and history(patience=1).kept(40) == {20}
    assert history().kept(40) == {20, 40} and best_of(history().counted(40))["step"] == 20
    assert best_of([]) is None
    assert history().due(40) == [10, 20, 30, 40] and history().due(39) == [10, 20, 30]
