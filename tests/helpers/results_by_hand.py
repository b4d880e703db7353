"""A results table made by hand: four systems, the first of which is the baseline."""

from raypipe.evaluation.compare import Comparison
from raypipe.evaluation.significance import Difference
from raypipe.evaluation.tables import Row
from raypipe.report.results import Results

VALUES = {
    "bm25": {"RR(rel=2)@10": 0.25, "NumRet": 40.0},
    "mono_a": {"RR(rel=2)@10": 0.5, "NumRet": 30.0},
    "duo": {"RR(rel=2)@10": 0.50001, "NumRet": 30.0},
    "worse": {"RR(rel=2)@10": 0.125, "NumRet": 50.0},
}
P = {"mono_a": 0.0499, "duo": 0.05, "worse": 0.001}
COSTS = {"bm25": (None, None, None), "mono_a": (12.34, 40.0, 40.0), "duo": (None, 1060.0, None)}


def by_hand(query_set="dev", baseline="bm25", costs=COSTS):
    rows, comparisons = [], {}
    for name, values in VALUES.items():
        gain = values["RR(rel=2)@10"] - 0.25
        found = {"RR(rel=2)@10": Difference(gain, gain - 0.1, gain + 0.1, 4, 2, 1)}
        found["NumRet"] = Difference(values["NumRet"] - 40, 0.0, 0.0, 1, 6, 0)
        compared = baseline is not None and name != baseline
        ms, inferences, computed = costs.get(name, (None, None, None))
        row = Row(
            name, "R&D, 50%", "m#1", values, ms, "a_b" if name == "duo" else "",
            found if compared else {}, inferences, computed,
        )  # fmt: skip
        rows.append(row)
        if compared:
            comparisons[name, "RR(rel=2)@10"] = Comparison(
                name, "RR(rel=2)@10", values["RR(rel=2)@10"], 7, 0.5, found["RR(rel=2)@10"],
                4, 2, 1, 0.25, P[name] / 3, P[name],
            )  # fmt: skip
    measures = ["RR(rel=2)@10", "NumRet"]
    about = ["7 topics", "relevant: grade 2 & 3"]
    return Results(
        "re_cipe", query_set, "passages", measures, 7, baseline, rows, comparisons,
        len(comparisons), ["a note"], about,
    )  # fmt: skip
