"""The audits of an invocation: for summary.json, and as tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from raypipe.driver.audit.figures import figures
from raypipe.driver.audit.stores import Audited
from raypipe.driver.audit.told import audit_table
from raypipe.driver.recipe.basis import Basis
from raypipe.vocabulary import Unit


def report_audits(
    basis: Basis,
    audits: Mapping[str, Sequence[Audited]],
    judgements: Mapping[tuple[str, Unit], pa.Table],
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """(by query set and stage what summary.json says; a Markdown text for each query set).

    Both are empty where every model computed in fp32.
    """
    told, texts = {}, []
    wanted = basis.recipe.evaluate
    measures = () if wanted is None else wanted.measures
    for query_set, of_set in audits.items():
        judged = judgements.get((query_set, "passages"))
        found = [figures(basis, query_set, one, judged, measures) for one in of_set]
        if found:
            told[query_set] = {one.stage: one.to_json() for one in found}
            texts.append(audit_table(query_set, found, measures))
    return told, texts
