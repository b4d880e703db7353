"""What was computed, from what and with what: the stores, the recipe and the versions."""

from raypipe.analysis.section import Section, Table, Value
from raypipe.driver.analysis.finished import Finished


def making(finished: Finished) -> Section:
    """The last invocation's stores in the order in which they were made, and its settings."""
    stages = finished.summary["stages"]
    rows: list[list[Value]] = [
        [
            name,
            told["fingerprint"][:12],
            told["rows"],
            told["copied"],
            told["shards"]["planned"],
            told["shards"]["quarantined"],
            told["coverage"],
            "reused" if told["reused"] else told["seconds"],
        ]
        for name, told in stages.items()
    ]
    columns = ["store", "fingerprint", "rows", "copied", "shards", "quarantined", "coverage"]
    versions: list[list[Value]] = [[k, str(v)] for k, v in finished.summary["versions"].items()]
    versions.append(["device", finished.summary["device"]])
    text = (finished.workspace.folder / "recipe.yaml").read_text()
    tables = [
        Table("Stores", [*columns, "seconds"], rows),
        Table("Made by", ["what", "is"], versions),
    ]
    return Section("making", "", tables, values={"recipe.yaml": text})
