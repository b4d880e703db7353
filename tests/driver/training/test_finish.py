"""What is said of a finished training."""

from types import SimpleNamespace

from raypipe.driver.training.train import seen_at_start
from raypipe.models.folder.model_folder import resolve_model


def test_what_the_start_had_seen_is_its_own_word_or_its_adapters(tmp_path):
    def seen(start, adapter=None, start_saw=None):
        model = SimpleNamespace(adapter=adapter, start_saw=start_saw)
        job = SimpleNamespace(start=resolve_model(start), recipe=SimpleNamespace(model=model))
        return seen_at_start(job)

    base = seen("minilm")
    assert base.startswith("1B pairs")
    assert seen("minilm", start_saw="half of it") == "half of it"
    assert seen("minilm", SimpleNamespace(start=None)) == base
    folder = tmp_path / "a"
    folder.mkdir()
    told = f"{base}; then what {folder} does not name"
    assert seen("minilm", SimpleNamespace(start=str(folder))) == told
    (folder / "raypipe.json").write_text('{"start_weights_saw": "books"}')
    assert seen("minilm", SimpleNamespace(start=str(folder))) == "books"
    assert "docs" in seen("minilm", SimpleNamespace(start="minilm-mono"))
