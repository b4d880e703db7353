"""Settings of figures that have no published numbers, beside those of our analyses."""

from collections.abc import Mapping, Sequence

from raypipe.analysis.published import sources
from raypipe.analysis.reproductions import Reproduction
from raypipe.analysis.section import Table, Value


def settings_table(of: Reproduction, here: Mapping[str, Sequence[int]]) -> Table:
    """A row for each setting of the reproduction's sources, in their order.

    `here` has, by setting, the values that the analyses take of it in the step that was run.
    """
    rows: list[list[Value]] = []
    for each in of.settings:
        source = sources()[each.source]
        for setting in source.settings:
            found = None
            if each.step is not None and setting.setting is not None:
                found = here.get(setting.setting)
            rows.append(
                [
                    f"{source.source}, {setting.of}",
                    setting.setting,
                    _joined(setting.values),
                    _joined(found),
                    setting.says,
                ]
            )
    columns = ["of", "setting", "published", "here", "says"]
    return Table("Settings of figures and tables without figures of their own", columns, rows)


def _joined(values: Sequence[int] | None) -> str | None:
    return None if values is None else ", ".join(map(str, values))
