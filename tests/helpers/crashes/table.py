"""All scenarios, the faults that are tried at their calls, and the table of both."""

from collections import Counter

from crashes import of_generations, of_storage, of_training, of_workspace
from crashes.disk import CHANGES, FAULTS, Fault
from crashes.trial import trials

GROUPS = {
    "stores": of_storage.SCENARIOS,
    "workspaces": of_workspace.SCENARIOS,
    "trainings": of_training.SCENARIOS,
    "generations": of_generations.SCENARIOS,
}
SCENARIOS = {scenario.name: scenario for group in GROUPS.values() for scenario in group}


def some(calm):
    """A kill at every call, and of the other faults one at each call, in turn.

    Of kills that leave the same folder, behind each other without a change, the first is tried.
    """
    kills = [
        at
        for at, (before, call) in enumerate(
            zip(("mkdir", *calm.calls), calm.calls, strict=False), 1
        )
        if before in CHANGES or call.endswith("write")
    ]
    chosen = [Fault("kill", at) for at in kills]
    for at, call in enumerate(calm.calls, 1):
        turn = [FAULTS[1 + (at + i) % (len(FAULTS) - 1)] for i in range(len(FAULTS))]
        chosen.append(next(f for kind in turn if (f := Fault(kind, at)).can_meet(call)))
    return chosen


def rows(calms):
    """The lines of the table: for each scenario its calls and how often each fault can meet it."""
    head = ["scenario", "calls", *FAULTS, "all", "by default"]
    yield head
    yield ["---"] + ["--:"] * (len(head) - 1)
    total = Counter()
    for name, calm in calms.items():
        by_kind = Counter(fault.kind for fault in trials(calm))
        counts = [len(calm.calls), *(by_kind[kind] for kind in FAULTS)]
        counts += [sum(by_kind.values()), len(some(calm))]
        total.update(dict(zip(head[1:], counts, strict=True)))
        yield [name, *counts]
    yield ["together", *(total[column] for column in head[1:])]


def calls(calms):
    """The lines of a second table: each scenario's calls by what they are."""
    kinds = sorted({call for calm in calms.values() for call in calm.calls})
    yield ["scenario", *kinds]
    yield ["---"] + ["--:"] * len(kinds)
    for name, calm in calms.items():
        by_call = Counter(calm.calls)
        yield [name, *(by_call[kind] or "" for kind in kinds)]


def rendered(lines):
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)
