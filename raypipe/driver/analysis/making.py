"""What was computed, from what and with what: the chain of stores, the settings, the versions."""

from raypipe.analysis.section import Section, Table, Value
from raypipe.driver.analysis.finished import Finished
from raypipe.driver.analysis.pages.chain import chain
from raypipe.driver.analysis.pages.settings import settings_table


def making(finished: Finished) -> Section:
    """The last invocation's stores in the order in which they were made, and its settings."""
    text = (finished.workspace.folder / "recipe.yaml").read_text()
    made_by = versions(finished)
    tables = [
        chain(finished),
        settings_table(finished.recipe),
        Table("Made by", ["what", "is"], [*map(list, made_by.items())]),
    ]
    return Section("making", "", tables, texts={"recipe.yaml": text})


def versions(finished: Finished) -> dict[str, Value]:
    """Versions, device and the numerics classes of the stores."""
    told: dict[str, Value] = {k: str(v) for k, v in finished.summary["versions"].items()}
    told["device"] = finished.summary["device"]
    told["numerics"] = "; ".join(finished.numerics()) or None
    return told
