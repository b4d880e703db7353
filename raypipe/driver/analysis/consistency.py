"""The analysis `consistency` of a finished workspace; see `raypipe.evaluation.consistency`."""

from pathlib import Path

from raypipe.analysis.depth import longest
from raypipe.analysis.section import Chart, Section, Table
from raypipe.driver.analysis.depth import FIRST_STAGES
from raypipe.driver.analysis.finished import Finished
from raypipe.evaluation.consistency import CUTOFFS
from raypipe.evaluation.consistency import consistency as factor
from raypipe.evaluation.run_files.runs import read_run


def consistency(finished: Finished, query_set: str, reference: Path) -> Section:
    """The consistency factor of each first stage with a run file, at depths up to its longest list.

    Source: RepBERT (Zhan et al. 2020), Figure 2.

    Raises:
        InputError: the file is not a run, or shares no query with a first stage.
    """
    given = read_run(reference)
    found, queries = {}, {}
    for name in finished.systems(query_set):
        if finished.recipe.stages[name].do not in FIRST_STAGES:
            continue
        run = finished.run(name, query_set)
        cutoffs = [cutoff for cutoff in CUTOFFS if cutoff <= longest(run)]
        if cutoffs:
            told = factor(finished.named(run, query_set), given, cutoffs)
            found[name], queries[name] = told.mean, told.num_queries
    depths = sorted({depth for values in found.values() for depth in values})
    rows = [[n, queries[n], *(values.get(d) for d in depths)] for n, values in found.items()]
    title = f"Share of the first passages that {reference.name} has"
    table = Table(title, ["first stage", "queries", *map(str, depths)], rows)
    lines = {name: [*values.items()] for name, values in found.items()}
    chart = Chart("Consistency by depth", "depth", "consistency", lines, log_x=True)
    notes = [
        "compare runs over one collection alone: a passage that the reference could not find is "
        "counted as if it had not",
    ]
    return Section("consistency", query_set, [table], [chart], notes)
