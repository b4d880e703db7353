"""The guards of a recipe's training sets, and the lines about its examples in log and table."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from raypipe.config import Training
from raypipe.config.training.sets import DevSet, Guarded
from raypipe.data.qrels import read_qrels
from raypipe.data.queries import read_queries
from raypipe.errors import InputError
from raypipe.training.examples.guarding.guard import Dropped, Guard


def guards_of(recipe: Training) -> dict[str, Guard]:
    """The guard for training sets over a collection: texts of all guarded sets, ids of its own.

    Raises:
        InputError: the qrels of a set judge none of its queries.
    """
    every: list[tuple[DevSet | Guarded, bool]] = [(dev, False) for dev in recipe.dev.values()]
    every += [(guarded, guarded.leave_out_passages) for guarded in recipe.guard.values()]
    texts: list[str] = []
    guards = {name: Guard() for name in recipe.collections}
    for guarded, leave_out in every:
        queries = read_queries(Path(guarded.queries))
        judged = None if guarded.qrels is None else read_qrels(Path(guarded.qrels))
        if judged is None:
            texts += [text for _, text in queries]
            continue
        columns = ("query_id", "passage_id", "relevance")
        judgements = list(zip(*(judged[c].to_pylist() for c in columns), strict=True))
        asked = {query_id for query_id, _, _ in judgements}
        found = [text for query_id, text in queries if query_id in asked]
        if not found:
            raise InputError(
                f"{guarded.queries}: none of its queries is judged in {guarded.qrels}; expected "
                "the judgements of these queries"
            )
        texts += found
        if guarded.collection is None:
            continue
        before = guards[guarded.collection]
        guards[guarded.collection] = Guard(
            shared=before.shared | frozenset(p for _, p, grade in judgements if grade > 0),
            left_out=before.left_out | frozenset(p for _, p, _ in judgements if leave_out),
        )
    queries_of_all = tuple(dict.fromkeys(texts))
    near = None if recipe.near_copy == "same" else recipe.near_copy
    return {
        name: replace(guard, queries=queries_of_all, near_copy=near)
        for name, guard in guards.items()
    }


def lines_about(name: str, facts: Mapping[str, Any]) -> list[str]:
    """Lines about a training set: the number of examples, and what was left out and why."""
    dropped = Dropped(**facts["dropped"], samples=list(facts["samples"]))
    short = facts["short"]
    line = (
        f"train: {name}: {facts['examples']:,} examples of {facts['passages']} passages over "
        f"{facts['queries']:,} queries"
    )
    if "relevant" in facts:
        line += f", {facts['relevant']:,} of them relevant"
    reasons = [
        (
            short["without_negatives"],
            "relevant passages with too few negatives",
        ),
        (short["beyond_runs"], "relevant passages below negatives.relevant_last in every run"),
        (short["without_teacher"], "relevant passages without a teacher's score"),
        (short["negatives_without_teacher"], "negatives without a teacher's score"),
        (short["filtered"], "negatives that the teacher scores above the relevant passage"),
        (short.get("lists"), "unlabelled lists of queries with too few passages"),
        (short.get("passages_without_teacher"), "passages without a teacher's score"),
    ]
    if "documents" in facts:
        number, not_best = (facts["documents"][key] for key in ("relevant", "not_best"))
        line += f", of {number:,} relevant documents"
        reasons.append((not_best, "passages that are not among the best of their document"))
    left = [f"{count:,} {what}" for count, what in reasons if count]
    return [line + (f"; left out: {', '.join(left)}" if left else ""), *dropped.lines(name)]
