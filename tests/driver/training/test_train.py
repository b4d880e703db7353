"""What a training asks for before it begins and tells while it runs, by hand."""

from types import SimpleNamespace

import pytest
from training_body import recipe

from raypipe.driver.training import train
from raypipe.driver.training.train import _seen_at_start
from raypipe.errors import InputError
from raypipe.models.folder.loading import resolve_model
from raypipe.storage.posix import PosixStorage


@pytest.mark.parametrize(
    ("there", "changes", "told"),
    [
        (False, {}, "no such file"),
        (True, {"model": {"query_limit": 70}}, "model.total_limit"),
        (True, {"validate": {"measure": "nonsense@7"}}, "nonsense"),
    ],
)
def test_what_contradicts_itself_is_told_before_a_folder_is_made(
    tmp_path, monkeypatch, there, changes, told
):
    if there:
        monkeypatch.setattr(train, "missing_training_inputs", lambda recipe: [])
    with pytest.raises(InputError, match=told):
        given = recipe(**changes)
        train.run_training(given, tmp_path / "w", watcher=None, say=lambda line: None)
    assert not (tmp_path / "w").exists()


def test_what_the_start_had_seen_is_its_own_word_or_its_adapters(tmp_path):
    def seen(start, adapter=None):
        model = SimpleNamespace(adapter=adapter)
        job = SimpleNamespace(start=resolve_model(start), recipe=SimpleNamespace(model=model))
        return _seen_at_start(job)

    base = seen("minilm")
    assert base.startswith("1B pairs")
    assert seen("minilm", SimpleNamespace(start=None)) == base
    folder = tmp_path / "a"
    folder.mkdir()
    told = f"{base}; then what {folder} does not tell"
    assert seen("minilm", SimpleNamespace(start=str(folder))) == told
    (folder / "raypipe.json").write_text('{"start_weights_saw": "books"}')
    assert seen("minilm", SimpleNamespace(start=str(folder))) == "books"
    assert "docs" in seen("minilm", SimpleNamespace(start="minilm-mono"))


@pytest.fixture
def job(tmp_path):
    given = recipe(steps=2000, validate={"every": 1000})
    return SimpleNamespace(
        storage=PosixStorage(tmp_path / "s"), folder="weights@mine/f", recipe=given
    )
