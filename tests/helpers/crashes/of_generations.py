"""Scenarios of generations and of gc: what becomes current, what goes back, what is deleted."""

from dataclasses import replace

import pyarrow as pa

from crashes.of_storage import ROWS, stores
from crashes.trial import Scenario
from raypipe.driver.generations.past import accept, rollback
from raypipe.driver.generations.publish import create_whole
from raypipe.driver.generations.retire import retire_older
from raypipe.driver.upkeep.gc import delete, find_garbage
from raypipe.driver.workspace import Workspace
from raypipe.storage.generations import (
    Generation,
    generation_numbers,
    held_generation,
    newest_generation,
    read_generation,
    refused_since,
    standing_generations,
)
from raypipe.storage.ledger import Ledger
from raypipe.storage.payloads import read_table, write_table
from raypipe.storage.records import Shard, hash_file
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import committed

LINE = "nightly"
SHARDS = [Shard(0, 0, 2)]


def spec(version):
    return StageSpec("toy", 1, {"version": version})


def generation(number, version, **facts):
    return Generation(LINE, number, {"toy": spec(version).fingerprint()}, facts)


def build(root, version):
    """A complete store; each version has rows of its own."""
    ledger = Ledger(stores(root), "toy", spec(version), SHARDS)
    for shard in ledger.pending():
        path = ledger.storage.scratch() / "rows.parquet"
        rows = pa.array([10 * version + row for row in range(shard.start, shard.stop)], pa.int64())
        write_table(path, ROWS, [pa.table({"row": rows})])
        ledger.commit(shard, path, {"rows": 2})
    ledger.note({"event": "complete"})
    ledger.publish()


def built(root, *versions):
    Workspace(root).mark()
    for version in versions:
        Workspace(root).refer("toy", spec(version).fingerprint())  # each an invocation
        build(root, version)


def one_and_a_build(root):
    """Generation 1 of version 1, and a build of version 2."""
    built(root, 1, 2)
    create_whole(stores(root), generation(1, 1))


def publish(root):
    """As a re-indexing ends: nothing is created where its stores are current."""
    newest = newest_generation(stores(root), LINE)
    if newest.stores != generation(2, 2).stores:
        create_whole(stores(root), generation(2, 2, base=newest.number))


def refuse(root):
    """As a re-indexing ends beyond a limit: the same build is refused once."""
    if not refused_since(stores(root), LINE, newest_generation(stores(root), LINE)):
        create_whole(stores(root), replace(generation(2, 2, base=1), refused="beyond"))


def one_refused(root):
    one_and_a_build(root)
    refuse(root)


def take(root):
    """As a user accepts who repeats the command."""
    accept(Workspace(root), LINE, 2)


def two(root):
    built(root, 1, 2)
    Workspace(root).forget_sources()  # as at the end of a night
    create_whole(stores(root), generation(1, 1))
    create_whole(stores(root), generation(2, 2))


def back(root):
    """As a user goes back who looks at the history before a repetition."""
    if newest_generation(stores(root), LINE).number == 2:
        rollback(Workspace(root), LINE)


def look(root):
    """The rows of the newest generation, and of those that are refused; all can be read."""
    place = stores(root)
    rows = {each.number: rows_of(root, each) for each in standing_generations(place, LINE)}
    numbers = generation_numbers(place, LINE)
    refused = {number: of for number, of in rows.items() if number not in numbers}
    return {"newest": rows[numbers[-1]], "refused": refused}


def rows_of(root, found):
    stored = found.stored(stores(root), "toy")
    return [row["row"] for row in stored.whole_table(ROWS).to_pylist()]


def three(root):
    """Three generations of one version each, and before them one that was refused."""
    built(root, 1, 2, 3)
    create_whole(stores(root), replace(generation(1, 1), refused="beyond"))
    for number in (1, 2, 3):
        create_whole(stores(root), generation(number + 1, number))


def retire(root):
    retire_older(stores(root), LINE, 2)


def look_at_line(root):
    """The numbers that stand and the rows of each; all that stand are readable."""
    place = stores(root)
    numbers = generation_numbers(place, LINE)
    rows = {n: rows_of(root, read_generation(place, LINE, n)) for n in numbers}
    return {"numbers": numbers, "kept": [rows[n] for n in (3, 4)]}


def read(root):
    """A reader that holds the newest generation while it reads."""
    with held_generation(stores(root), LINE) as found:
        rows_of(root, found)


def retired_with_litter(root):
    """A retired generation with its store, an orphan payload, unfinished files."""
    three(root)
    retire(root)
    place = stores(root)
    left = place.owned("toy-gone").scratch() / "rows.parquet"
    left.write_bytes(b"half")
    orphan = place.scratch() / "rows"
    orphan.write_bytes(b"nobody's")
    place.put(hash_file(orphan), orphan)


def collect(root):
    work = Workspace(root)
    delete(work, find_garbage(work, spared_seconds=-1), spared_seconds=-1)


def look_at_kept(root):
    """The kept generations, and that what remains of the others can be read or computed again."""
    return {"kept": look_at_line(root)["kept"], "old": remaining(root, 1)}


def remaining(root, version):
    """The rows of the committed shards: every record names a payload that is there."""
    if not stores(root).exists(f"toy/{spec(version).fingerprint()}/spec.json"):
        return None
    found = committed(stores(root), "toy", spec(version))
    if found is None:
        return []
    return [read_table(found.path(r), ROWS)["row"].to_pylist() for r in found.manifest.records]


def in_parts(part, seen):
    """A store goes file by file: complete, resumable or absent."""
    return part == "old" and seen == []


SCENARIOS = [
    Scenario("a generation", one_and_a_build, publish, look),
    Scenario("a refusal", one_and_a_build, refuse, look),
    Scenario("an acceptance", one_refused, take, look, own=r".*nightly/0000003\.json"),
    Scenario("a rollback", two, back, look, own=r".*nightly/0000003\.json|stores/refs/.*"),
    Scenario("retirement", three, retire, look_at_line),
    Scenario("a reader of a generation", two, read, look),
    Scenario("gc", retired_with_litter, collect, look_at_kept, in_parts),
]
