"""What a training asks for before it begins, and what is left of it."""

import pytest
from training_body import recipe

from raypipe.driver.training import train
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify
from raypipe.errors import InputError


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
        monkeypatch.setattr(train, "missing_inputs", lambda recipe: [])
    with pytest.raises(InputError, match=told):
        given = recipe(**changes)
        train.run_training(given, tmp_path / "w", watcher=None, say=lambda line: None)
    assert not (tmp_path / "w").exists()


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_dev_measure_counts_the_candidates_below_the_first_k(
    small_recipe, small_files, train, tmp_path
):
    """A relevant passage at rank 15, and of one query another at 3, the first 10 reordered."""
    ids = [line.split("\t")[0] for line in (small_files / "passages.tsv").read_text().splitlines()]
    queries = (small_files / "queries.dev.tsv").read_text().splitlines()
    lines, judged = [], []
    for number, query in enumerate(line.split("\t")[0] for line in queries):
        ranking = [ids[(number + place) % len(ids)] for place in range(20)]
        places = (14,) if number else (2, 14)  # else no order would count
        judged += [f"{query} 0 {ranking[place]} 1\n" for place in places]
        lines += [f"{query} Q0 {p} {r} {1 / r:.6f} made\n" for r, p in enumerate(ranking, 1)]
    (tmp_path / "dev.trec").write_text("".join(lines))
    (tmp_path / "qrels.txt").write_text("".join(judged))
    dev = {
        "collection": "docs",
        "queries": str(small_files / "queries.dev.tsv"),
        "qrels": str(tmp_path / "qrels.txt"),
        "run": str(tmp_path / "dev.trec"),
        "k": 10,
    }
    few = {"steps": 2, "optimiser": {"warmup": 1}, "dev": {"docs": dev}}
    others = len(queries) - 1
    for measure, below in (("RR@20", 1 / 15), ("RR@10", 0.0)):
        path = small_recipe(**few, validate={"every": 2, "measure": measure})
        trained = train(path, tmp_path / measure.replace("@", "-"))
        (measured,) = (each["mean"] for each in trained.summary["history"])
        own = measured * len(queries) - others * below  # of the first query
        assert any(own == pytest.approx(1 / rank) for rank in range(1, 11))
