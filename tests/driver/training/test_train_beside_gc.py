"""A training whose store a gc has taken just before it is referred to."""

import pytest

from raypipe.driver.upkeep.verify import verify
from raypipe.driver.workspace import Workspace


@pytest.mark.parametrize("complete", [True, False])
def test_a_training_that_a_gc_took_just_before_a_ref_is_written_is_made_again(
    small_recipe, train, weights, tmp_path, monkeypatch, complete
):
    """It saw no ref and its marks are gone: whoever refers then finds what was deleted."""
    recipe, out = small_recipe(steps=4), tmp_path / "out"
    train(recipe, out)
    before = weights(out)
    work = Workspace(out)
    place = f"weights@small/{work.refs()['weights@small']}"
    if not complete:
        work.stores.delete(f"{place}/manifest.json")
    doomed, refer = [*work.stores.names(place)], Workspace.refer

    def late(workspace, store, fingerprint):
        while f"{store}/{fingerprint}" == place and doomed:
            workspace.stores.delete(doomed.pop())
        refer(workspace, store, fingerprint)

    monkeypatch.setattr(Workspace, "refer", late)
    train(recipe, out)
    assert doomed == [] and verify(Workspace(out)) == []
    assert all(bool((tensor == before[name]).all()) for name, tensor in weights(out).items())
