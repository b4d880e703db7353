"""`verify` of a training reads every byte of its collections' stores too."""

from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify


def test_a_flipped_bit_in_any_payload_of_a_training_is_found(small_recipe, train, tmp_path):
    out = tmp_path / "out"
    recipe = small_recipe()
    train(recipe, out)
    assert verify(open_workspace(out)) == []
    blobs = sorted(path for path in out.glob("stores/blobs/*/*") if path.stat().st_size)
    assert len(blobs) > 8
    for path in blobs:
        before = path.read_bytes()
        path.chmod(0o644)
        path.write_bytes(bytes([before[0] ^ 1]) + before[1:])
        found = [damage.name for damage in verify(open_workspace(out))]
        assert any(path.name in name for name in found), (path, found)
        path.write_bytes(before)
    inner = next(out.glob("collections/*/workspace.json"))
    inner.write_text("{}")
    (damage,) = verify(open_workspace(out))
    assert damage.name == str(inner.relative_to(out)) == damage.remedy.split()[1]
    (spec,) = out.glob("stores/weights@small/*/spec.json")
    before = spec.read_bytes()
    spec.unlink()
    inner.unlink()
    train(recipe, out)
    assert spec.read_bytes() == before and verify(open_workspace(out)) == []
