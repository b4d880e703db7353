"""Proves of a job's history, after whatever was killed, that no shard was lost or done twice.

In the manner of Jepsen: the workers of the job write down what they begin and what was acknowledged
to them (history_site), and what readers find in the end is held against it.
"""

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from raypipe.storage.records import Record, Shard

SITE = Path(__file__).parent / "history_site"
REPOSITORY = Path(__file__).parent.parent.parent


def recording(folder: Path) -> dict[str, str]:
    """Environment variables under which every process of a job writes its history here."""
    folder.mkdir(exist_ok=True)
    before = os.environ.get("PYTHONPATH") or str(REPOSITORY)
    return {"PYTHONPATH": f"{SITE}{os.pathsep}{before}", "HISTORY_OF_JOB": str(folder)}


@dataclass(frozen=True)
class History:
    """Lines in the order of their times, and the last line of each process."""

    lines: list[dict]
    last: list[dict]

    @staticmethod
    def read(folder: Path) -> "History":
        lines, last = [], []
        for path in folder.glob("*.jsonl"):
            own = [json.loads(line) for line in path.read_text().splitlines()]
            lines += own
            last.append(own[-1])
        return History(sorted(lines, key=lambda line: line["time"]), last)


def shard_of(line: dict) -> tuple[str, str, int]:
    return line["store"], line["fingerprint"], line["shard"]


def planned_and_published(stores: Path) -> tuple[set[tuple], dict[tuple, str]]:
    """What readers find: the shards of every plan; the hash of each shard in a manifest."""
    planned, published = set(), {}
    for path in stores.glob("*/*/plan.json"):
        store = path.parent.parent.name, path.parent.name
        body = json.loads(path.read_text())["body"]
        planned |= {(*store, Shard(*shard).index) for shard in body["shards"]}
    for path in stores.glob("*/*/manifest.json"):
        store = path.parent.parent.name, path.parent.name
        body = json.loads(path.read_text())["body"]
        records = [Record.from_json(record) for record in body["records"]]
        assert len({record.shard.index for record in records}) == len(records), f"{path}: twice"
        published |= {(*store, record.shard.index): record.sha256 for record in records}
    return planned, published


def problems(history: History, planned: set[tuple], published: dict[tuple, str]) -> list[str]:
    """What is wrong, a sentence each; none if acknowledged = published = planned.

    A process that is killed between the commit of a shard and the line that acknowledges it leaves
    a published shard that nobody acknowledged: the shard is the last one that it began. One that is
    killed just after that line may take the answer with it, and the shard is computed again. Two
    workers may acknowledge a shard that was late on one of them: the same record.
    """
    found = [f"{shard}: planned and not published" for shard in sorted(planned - published.keys())]
    found += [f"{shard}: published and not planned" for shard in sorted(published.keys() - planned)]
    began_last = {shard_of(line) for line in history.last if line["event"] == "intent"}
    answer_lost = answers_that_may_be_lost(history) | {*map(shard_of, tried_twice(history))}
    acknowledged: dict[tuple, str] = {}
    intended = set()
    for line in history.lines:
        if line["event"] == "published":
            for index, sha256 in line["records"].items():
                shard = line["store"], line["fingerprint"], int(index)
                if published.get(shard) != sha256:
                    found.append(f"{shard}: readers no longer find what was published")
            continue
        shard = shard_of(line)
        if line["event"] == "second try":
            continue
        if line["event"] == "intent":
            intended.add(shard)
            if shard in acknowledged and shard not in answer_lost:
                found.append(f"{shard}: computed again after it was acknowledged")
        elif shard in acknowledged and shard not in answer_lost:
            found.append(f"{shard}: acknowledged twice")
        else:
            if acknowledged.get(shard, line["sha256"]) != line["sha256"]:
                found.append(f"{shard}: acknowledged with other bytes")
            acknowledged[shard] = line["sha256"]
    for shard, sha256 in acknowledged.items():
        if published.get(shard) != sha256:
            found.append(f"{shard}: acknowledged, and readers find another or none")
    for shard in published.keys() - intended:
        found.append(f"{shard}: published, and no worker began it")
    for shard in (published.keys() & intended) - acknowledged.keys() - began_last:
        found.append(f"{shard}: published, not acknowledged, and its worker went on")
    return found


def answers_that_may_be_lost(history: History) -> set[tuple]:
    """Shards whose acknowledgement is the last line of a process."""
    return {shard_of(line) for line in history.last if line["event"] == "acknowledged"}


def in_flight_when_killed(history: History) -> int:
    """What may be redone at most: processes that ended over a shard that was begun elsewhere too.

    Each had begun it, or had committed it and may not have told anybody.
    """
    begun: dict[tuple, float] = {}  # when a shard was begun for the last time
    for line in history.lines:
        if line["event"] == "intent":
            begun[shard_of(line)] = line["time"]
    last = [line for line in history.last if line["event"] in ("intent", "acknowledged")]
    again = (line for line in last if begun[shard_of(line)] > line["time"])
    return sum(line["event"] == "intent" for line in last) + sum(
        line["event"] == "acknowledged" for line in again
    )


def redone(history: History) -> int:
    """How often a shard was begun beyond the first time; parts and second tries do not count."""
    whole = [line for line in history.lines if line["event"] == "intent"]
    begun = Counter(shard_of(line) for line in whole if line["mode"] != "probe")
    return sum(begun.values()) - len(begun) - len(tried_twice(history))


def tried_twice(history: History) -> list[dict]:
    """The lines of shards that a second worker was given because the first was late."""
    return [line for line in history.lines if line["event"] == "second try"]
