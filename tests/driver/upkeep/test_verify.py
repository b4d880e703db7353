from pathlib import Path

from small_invocation import Watching

from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify


def test_damage_is_told_by_store_in_the_order_of_names(invocable):
    folder, recipe = invocable
    run_pipeline(recipe, folder / "w", Options(), watcher=Watching())
    names = []
    for store in ("vectors", "dense.dev", "ids@collection"):
        (manifest,) = (folder / "w" / "stores" / store).glob("*/manifest.json")
        manifest.chmod(0o644)
        manifest.write_text("{")
        names.append(str(manifest.relative_to(folder / "w" / "stores")))
    found = verify(open_workspace(folder / "w"))
    assert [damage.name for damage in found] == sorted(names)
    (plan,) = (folder / "w" / "stores" / "vectors").glob("*/plan.json")
    plan.chmod(0o644)
    plan.write_text("{")
    damage = verify(open_workspace(folder / "w"))[-1]
    assert damage.name == str(plan.relative_to(folder / "w" / "stores"))
    assert damage.remedy.startswith(f"delete the folder {Path(names[0]).parent} and run again")
    plan.unlink()  # not planned: nothing of it can be damaged
    assert len(verify(open_workspace(folder / "w"))) == 2
