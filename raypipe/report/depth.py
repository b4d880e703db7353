"""What a first stage's depth costs and gains: recall, and a reranker over its candidates.

Source: RepBERT (Zhan et al. 2020), Table 2 and Figure 1; Nogueira et al. 2019, Figure 2.
"""

from raypipe.config.stages import MonoScore
from raypipe.names import of_stage
from raypipe.ranking.blend import reranked_at
from raypipe.report.finished import (
    Finished,
    about,
    depths_up_to,
    longest,
    marked,
    means,
    measures_of,
    needed,
    of_system,
    outside,
    recall_of,
    relevant_grade,
)
from raypipe.report.section import Chart, Section, Table, Value
from raypipe.stages.scoring.blending import blend_and_depth

RERANKED_DEPTHS = (5, 10, 50, 100, 500, 1000)
"""Depths of candidates for a reranker, those of RepBERT's Table 2."""


def depth(finished: Finished, query_set: str) -> Section:
    """Recall of each first stage by depth, and each reranker by its number of candidates.

    Depths beyond a run's longest list are left out. A reranker's values come from its one scoring.
    """
    recall, reranked = _recall(finished, query_set), _reranked(finished, query_set)
    depths = sorted({number for values in recall.values() for number in values})
    measures = measures_of(finished)
    tables = [
        Table(
            "Recall of the first stages by depth",
            ["first stage", *map(str, depths)],
            [[name, *(values.get(number) for number in depths)] for name, values in recall.items()],
        )
    ]
    lines = {name: [*values.items()] for name, values in recall.items()}
    charts = [Chart("Recall by depth", "depth", "recall", lines, log_x=True)]
    if reranked:
        rows: list[list[Value]] = [
            [name, run, number, *(found[measure] for measure in measures)]
            for (name, run), by_depth in reranked.items()
            for number, found in by_depth.items()
        ]
        title = "Rerankers by the number of candidates"
        tables.append(Table(title, ["reranker", "over", "candidates", *measures], rows))
        by_candidates = {
            marked(finished, name): [(n, found[measures[0]]) for n, found in by_depth.items()]
            for (name, _), by_depth in reranked.items()
        }
        title = f"{measures[0]} by candidates"
        charts.append(Chart(title, "candidates", measures[0], by_candidates, log_x=True))
    notes = [
        *about(finished, query_set),
        f"recall counts grade {relevant_grade(finished)} or higher",
        *outside(finished, query_set, finished.first_stages(query_set)),
    ]
    return Section("depth", query_set, tables, charts, notes)


def _recall(finished: Finished, query_set: str) -> dict[str, dict[int, float]]:
    return {
        marked(finished, name): dict(recall_of(finished, query_set, name))
        for name in finished.first_stages(query_set)
    }


def _reranked(
    finished: Finished, query_set: str
) -> dict[tuple[str, str], dict[int, dict[str, float]]]:
    """(reranker, its input) -> candidates -> measure -> mean."""
    found = {}
    for name in finished.systems(query_set):
        stage = finished.recipe.stages[name]
        if not isinstance(stage, MonoScore):
            continue
        runs = (finished.run(each, query_set) for each in (stage.run, name))
        measures = measures_of(finished)
        first, scored = (needed(finished, query_set, r, measures, most=stage.k0) for r in runs)
        if not len(first):
            continue
        blend = blend_and_depth(finished.stored(of_stage(name, query_set)))
        by_depth = {}
        *fewer, all_of_them = depths_up_to(min(stage.k0, longest(first)), RERANKED_DEPTHS)
        for number in fewer:
            run = reranked_at(
                first, scored, scored_by=name, depth=number, tail=stage.tail, blend=blend
            )
            by_depth[number] = dict(means(finished, query_set, run, measures))
        by_depth[all_of_them] = dict(of_system(finished, query_set, name).mean)
        found[name, marked(finished, stage.run)] = by_depth
    return found
