"""What differs in the making of two workspaces."""

from collections.abc import Mapping, Sequence

from raypipe.analysis.section import Section, Table, Value
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.making import versions
from raypipe.driver.analysis.pages.settings import settings_table


def differing(one: Finished, other: Finished) -> Section:
    """Settings, versions, devices and stores in which the two differ."""
    settings = [
        {str(row[0]): row[1] for row in settings_table(each.recipe).rows} for each in (one, other)
    ]
    stores = [
        {name: told["fingerprint"][:12] for name, told in each.summary["stages"].items()}
        for each in (one, other)
    ]
    tables = [
        _differing("Settings that differ", "setting", settings),
        _differing("Versions and devices that differ", "what", [versions(one), versions(other)]),
        _differing("Stores that differ", "store", stores),
    ]
    same = sum(stores[1].get(name) == fingerprint for name, fingerprint in stores[0].items())
    notes = [f"{same:,} stores of {len({*stores[0], *stores[1]}):,} have the same fingerprint"]
    return Section("what differs", "", tables, (), notes)


def _differing(title: str, what: str, told: Sequence[Mapping[str, Value]]) -> Table:
    """Rows of the names whose values differ; nothing where one has no such name."""
    names = dict.fromkeys([*told[0], *told[1]])
    rows = [[name, told[0].get(name), told[1].get(name)] for name in names]
    return Table(title, [what, "A", "B"], [row for row in rows if row[1] != row[2]])
