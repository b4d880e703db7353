"""Names of measures, of ir_measures and trec_eval: parsed and checked before they are computed."""

import contextlib
import difflib
import io
import re
from collections.abc import Mapping, Sequence

import ir_measures
import pyarrow as pa
from ir_measures.measures import SumAgg, registry

from raypipe.errors import InputError, shown
from raypipe.schema import MAX_GRADE

_TREC_EVAL = re.compile(r"[A-Za-z0-9]+(_[A-Za-z]+)*([._][0-9]+(\.[0-9]+)?)?")
"""Pattern of every name in trec_eval, with its cutoff or level of recall if it has one."""
_OF_SUBTOPICS = (
    *("alpha_DCG", "alpha_nDCG", "ERR_IA", "nERR_IA", "NRBP", "nNRBP", "AP_IA", "P_IA"),
    "StRecall",
)
GDEVAL_GRADE = 4
"""ERR divides gains by 2^4, so a higher grade has no probability, and gdeval ends at one."""


_NAME = re.compile(r"(?:\([^()]*\)|[^\s,(]|\()+")


def measures_in(text: str) -> list[str]:
    """The names in a text, between blanks and commas, but for those within parentheses.

    A name has no blanks: `SetP(rel=2, relative=True)` is `SetP(rel=2,relative=True)`.
    """
    return ["".join(name.split()) for name in _NAME.findall(text)]


def parse_measures(measures: Sequence[str]) -> dict[str, ir_measures.Measure]:
    """Name as given -> measure; each is known, complete and can be computed here.

    Raises:
        InputError: lists every name that is not, with the nearest known one; or there is no name.
    """
    if not measures:
        raise InputError("measures: expected one or more, such as nDCG@10; found none")
    parsed, problems = {}, []
    for name in measures:
        try:
            parsed[name] = _parse(name)
        except (ValueError, NameError, KeyError, AssertionError) as error:
            problems.append(f"measure {name!r}: {_reason(name, error)}")
    if problems:
        raise InputError(problems)
    return parsed


def counts_in(measures: Sequence[str]) -> list[str]:
    """Names of the measures that are sums over the queries, such as NumRel, and have no mean.

    Raises:
        InputError: see `parse_measures`.
    """
    parsed = parse_measures(measures)
    return [name for name, measure in parsed.items() if isinstance(measure.aggregator(), SumAgg)]


def cutoffs_in(measures: Sequence[str]) -> list[int]:
    """The cutoffs of those of the measures that have one, ascending, each once.

    Raises:
        InputError: see `parse_measures`.
    """
    parsed = parse_measures(measures).values()
    return sorted({each.params["cutoff"] for each in parsed if "cutoff" in each.params})


def by_gdeval(measure: ir_measures.Measure) -> bool:
    """Whether ir_measures computes a measure by gdeval.pl: ERR, and nDCG of gains 2^grade - 1.

    The script writes five digits after the point, takes whole numbers for ids of queries, and drops
    what comes before a hyphen in them.

    Source: TREC 2010 Web track.
    """
    return bool(measure.NAME == "ERR" or measure.params.get("dcg") == "exp-log2")


def problems_of(
    parsed: Mapping[str, ir_measures.Measure], judgements: Mapping[str, Mapping[str, int]]
) -> list[str]:
    """A line for each measure that the judgements' grades do not allow."""
    named = [name for name, measure in parsed.items() if by_gdeval(measure)]
    if not named:
        return []
    judgement = next(
        (
            (query, passage, grade)
            for query, grades in judgements.items()
            for passage, grade in grades.items()
            if grade > GDEVAL_GRADE
        ),
        None,
    )
    if judgement is None:
        return []
    query, passage, grade = judgement
    return [
        f"measure {name!r}: expected grades up to {GDEVAL_GRADE}, its highest; found grade {grade} "
        f"(query {query}, passage {passage}); lower the grades, or use nDCG, which has no highest"
        for name in named
    ]


def check_grades(qrels: pa.Table, measures: Sequence[str]) -> None:
    """Nothing, if every measure takes the grades; see `problems_of`.

    Raises:
        InputError: an unknown measure, or grades that a measure does not take.
    """
    parsed = parse_measures(measures)
    if any(map(by_gdeval, parsed.values())) and (problems := problems_of(parsed, grades_of(qrels))):
        raise InputError(problems)


def grades_of(qrels: pa.Table) -> dict[str, dict[str, int]]:
    """Query id -> passage id -> grade, from schema.QRELS; queries as they first appear."""
    grades: dict[str, dict[str, int]] = {}
    columns = (qrels[name].to_pylist() for name in ("query_id", "passage_id", "relevance"))
    for query, passage, grade in zip(*columns, strict=True):
        grades.setdefault(query, {})[passage] = grade
    return grades


def _parse(name: str) -> ir_measures.Measure:
    measure = _trec_eval(name) or ir_measures.parse_measure(name)
    if reason := _not_computed(measure):
        raise ValueError(reason)
    needed = {each for each, of in measure.SUPPORTED_PARAMS.items() if of.required}
    needed |= {"cutoff"} if by_gdeval(measure) else set()
    for each in sorted(needed - measure.params.keys()):
        form = f"{measure.NAME}@10" if each == "cutoff" else f"{measure.NAME}({each}=...)"
        raise ValueError(f"expected a {each}, as in {form}; found none")
    measure.validate_params()
    for name in measure.params.keys() & {"cutoff", "rel"}:
        value = measure.params[name]
        # At a cutoff of 0, an assertion in trec_eval would end the whole process.
        if isinstance(value, bool) or not 1 <= value <= 1_000_000:
            raise ValueError(f"expected a {name} from 1 to 1000000; found {value!r}")
    for grade, gain in measure.params.get("gains", {}).items():
        for value in (grade, gain):
            if type(value) is not int or abs(value) > MAX_GRADE:
                raise ValueError(
                    f"expected gains such as {{1: 1, 2: 3}}, of whole numbers up to {MAX_GRADE:,}, "
                    f"as trec_eval takes memory by the highest; found {shown(value)}"
                )
    if not ir_measures.DefaultPipeline.supports(measure):
        if by_gdeval(measure):
            raise ValueError("needs perl, which is not installed")
        providers = ir_measures.providers.registry.items()
        extras = [f"'ir-measures[{name}]'" for name, each in providers if each.supports(measure)]
        if not extras:
            raise ValueError("no package of ir_measures computes it with these parameters")
        raise ValueError(f"needs what is not installed; pip install {' or '.join(extras)}")
    return measure


def _not_computed(measure: ir_measures.Measure) -> str | None:
    """Why raypipe does not compute a measure that ir_measures may compute; None if it does."""
    if measure.NAME in _OF_SUBTOPICS:
        return (
            "it counts subtopics, the second column of such judgements, which raypipe does not "
            "read; ir_measures computes it from the two files"
        )
    if measure.NAME == "Accuracy":
        return (
            "it has no value for a query without a relevant passage in the run, or with none that "
            "is not, and every mean here is over all judged queries; ir_measures computes it"
        )
    return None


def _trec_eval(name: str) -> ir_measures.Measure | None:
    """The measure of that name in trec_eval, such as `ndcg_cut_10`; None if it has none.

    A name that ir_measures has too, such as P, means what ir_measures takes it for.

    Raises:
        ValueError: ir_measures has no such measure, or the name stands for several.
    """
    if not _TREC_EVAL.fullmatch(name) or name in registry:
        return None
    with contextlib.redirect_stdout(io.StringIO()):  # it prints which of a group it has not
        try:
            parsed = ir_measures.parse_trec_measure(name)
        except ValueError as error:
            if "known trec name" in str(error):
                raise ValueError(f"ir_measures does not compute trec_eval's {name}") from None
            return None
    if len(parsed) != 1:
        raise ValueError(f"in trec_eval it stands for {len(parsed)} measures; name each of them")
    return parsed[0]


_ELSEWHERE = {
    **dict.fromkeys(("hit_rate", "hitrate", "hit", "accuracy", "top_k_accuracy"), "Success"),
    "mean_reciprocal_rank": "RR",
    **dict.fromkeys(("average_precision", "mean_average_precision"), "AP"),
}
"""Names of ranx, sentence-transformers and others that are near to no name of ir_measures."""
_CUTOFF_FIRST = re.compile(r"(\w+)(@[0-9]+)(\(.*\))")


def _reason(name: str, error: Exception) -> str:
    if not isinstance(error, NameError):
        reason = str(error)
        if name.isdecimal():
            reason = "a number alone; trec_eval's P.5,10 is P_5 P_10 here"
        elif misplaced := _CUTOFF_FIRST.fullmatch(name):
            reason = "a cutoff comes last, as in {0}{2}{1}".format(*misplaced.groups())
        return (
            f"{reason}; expected a form like nDCG@10, RR(rel=2)@10, AP, R@1000, or trec_eval's "
            "like ndcg_cut_10, map, recall_1000"
        )
    word = name.split("@")[0].split("(")[0].strip()
    # Aliases first, so that nDCG is suggested rather than NDCG.
    refused = (*_OF_SUBTOPICS, "Accuracy")
    computed = [known for known in registry if registry[known].__name__ not in refused]
    known_names = sorted(computed, key=lambda known: registry[known].__name__ == known)
    by_lower = {known.lower(): known for known in known_names}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0)
    known = _ELSEWHERE.get(word.lower(), by_lower[near[0]])
    return f"unknown; the nearest known one is {known}{name.strip()[len(word) :]}"
