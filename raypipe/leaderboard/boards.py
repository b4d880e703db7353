"""The table of tasks: each board's rules, measures and files; a user's own from a YAML file.

`local` is not a leaderboard: it has only the rules of every run file.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from raypipe.errors import InputError
from raypipe.regular import check_regular

if TYPE_CHECKING:  # the help of commands names the boards, and loads no tables for it
    import pyarrow as pa


def _expected(text: str) -> PydanticCustomError:
    return PydanticCustomError("expected", "{expected}", {"expected": text})


def _pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise _expected(f"a regular expression ({error})") from None
    return pattern


_KINDS = ("text", "any text", "optional", "date", "figure")


def _kind(value: Any) -> Any:
    words = value if isinstance(value, list) and value else [None]
    if value not in _KINDS and not all(isinstance(word, str) for word in words):
        raise _expected(f"{', '.join(_KINDS)}, or a list of words")
    return value


Pattern = Annotated[str, AfterValidator(_pattern)]
Count = Annotated[int, Field(ge=1)]
Kind = Annotated[str | list[str], BeforeValidator(_kind)]
"""A field of a file of facts: a text that says something, one that may be empty, one that may be
left out, a day as YYYY-MM-DD, a measure that raypipe computes, or one of the listed words."""


class FactsFile(BaseModel):
    """A JSON file of facts that a board takes beside the run."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_-]*\.json$")]
    """Its name in the submission's folder."""
    fields: dict[str, Kind]
    """Its fields, in order."""

    @property
    def asked(self) -> dict[str, Kind]:
        """The fields that a user fills in."""
        return {name: kind for name, kind in self.fields.items() if kind != "figure"}


class Board(BaseModel):
    """The rules of one task, as numbers and patterns."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
    task: Annotated[str, Field(min_length=1)]
    form: Literal["trec", "msmarco", "any"] = "trec"
    """msmarco (query TAB passage TAB rank), trec (six columns), or any that a run may have."""
    depths: dict[Pattern, Count | None] = {}
    """Pattern of its passage ids -> largest number of rows per query with such ids, if there is
    one."""
    num_passages: Count | None = None
    """Ids are 0 to n - 1."""
    query_ids: Pattern | None = None
    """Pattern of its query ids."""
    query_sets: dict[str, Count] = {}
    """Its query sets by name, with their numbers of queries; with `dev`, pack takes a dev run."""
    scores: Literal["falling", "not rising"] = "falling"
    """Whether a TREC file may repeat the score of the line above."""
    tags: Pattern | None = None
    """Pattern of a TREC file's tag, and so of a submission's id."""
    measures: list[str] = []
    """Measures that `--qrels` computes, in the notation of ir_measures, or of `SCRIPTS`."""
    judgements: list[str] = []
    """Names of its sets of judgements, if it has several; each measures by all measures."""
    full_rows: bool = False
    """Whether its script warns if a query has fewer rows than allowed."""
    facts: FactsFile | None = None
    """The file of facts that it takes beside the run."""
    dated: bool = False
    """Whether ids have the form yyyymmdd-name, at most two in 30 days, with the facts beside the
    folder as ID-NAME; an embargo may be asked for."""
    closed: Annotated[int, Field(ge=1992)] | None = None
    """The year since which it takes no runs."""

    @property
    def figures(self) -> list[str]:
        """The names of its figures: measures, after their set of judgements if it has several."""
        return [
            f"{judgements} {measure}".strip()
            for judgements in self.judgements or [""]
            for measure in self.measures
        ]


def reciprocal_rank(
    rankings: Mapping[str, Sequence[str]], qrels: "pa.Table", *, cutoff: int
) -> tuple[float, int]:
    """(mean, number of queries) as computed by MS MARCO's evaluation scripts.

    The first passage at ranks 1 to `cutoff` that the qrels have for the query counts 1/rank,
    whatever its grade. The sum, in the run's order of queries, is divided by the number of queries
    in the qrels: queries missing from the run count 0, and other queries of the run are ignored.
    """
    relevant: dict[str, set[str]] = {}
    for query, passage in zip(
        qrels["query_id"].to_pylist(), qrels["passage_id"].to_pylist(), strict=True
    ):
        relevant.setdefault(query, set()).add(passage)
    total = 0.0
    for query, passages in rankings.items():
        relevant_passages = relevant.get(query, ())
        for rank, passage in enumerate(passages[:cutoff], 1):
            if passage in relevant_passages:
                total += 1 / rank
                break
    return total / len(relevant), len(relevant)


Script = Callable[[Mapping[str, Sequence[str]], "pa.Table"], tuple[float, int]]
"""(value, number of queries) of rankings, given qrels (schema.QRELS)."""
SCRIPTS: dict[str, Script] = {
    f"MRR @{cutoff}": partial(reciprocal_rank, cutoff=cutoff) for cutoff in (10, 100)
}
"""Measures that only a board's own script computes so, by the name that it prints."""

_NUMBER = "[0-9]+"
_UNPADDED = "0|[1-9][0-9]*"
_V1_DOCUMENT = "D[0-9]+"
_MSMARCO_FACTS = FactsFile(
    name="metadata.json",
    fields={
        "team": "text",
        "model_description": "text",
        "paper": "any text",
        "code": "any text",
        "type": ["full ranking", "reranking"],
        "embargo_until": "optional",
    },
)

BOARDS = {
    board.task: board
    for board in (
        # ms_marco_eval.py: whole numbers, 1,000 places; run_eval.py: lines = queries x 1,000.
        Board(
            task="msmarco-passage",
            form="msmarco",
            depths={_NUMBER: 1000},
            num_passages=8_841_823,
            query_ids=_UNPADDED,
            query_sets={"dev": 6980, "eval": 6837},
            measures=["MRR @10"],
            full_rows=True,
            facts=_MSMARCO_FACTS,
            dated=True,
            closed=2022,
        ),
        # The document script: string ids, MaxMRRRank 100, a warning above 100 rows.
        Board(
            task="msmarco-doc",
            form="msmarco",
            depths={_V1_DOCUMENT: 100},
            query_ids=_UNPADDED,
            query_sets={"dev": 5193, "eval": 5793},
            measures=["MRR @100"],
            full_rows=True,
            facts=_MSMARCO_FACTS,
            dated=True,
            closed=2022,
        ),
        # TREC DL 2019-20 rank v1 to depth 1,000, 2021-23 v2 to depth 100. Tags: NIST's script of
        # 2022; that of 2020 takes 15 characters.
        Board(
            task="trec-dl",
            depths={
                "msmarco_(passage|doc)_[0-9]+_[0-9]+": 100,
                _NUMBER: 1000,
                _V1_DOCUMENT: 1000,
            },
            tags="[A-Za-z0-9_-]{1,25}",
            measures=["nDCG@10"],
            closed=2023,
        ),
        Board(
            task="trec-car",
            depths={"[0-9a-f]{40}": 1000},
            measures=["AP", "Rprec", "RR"],
            closed=2019,
        ),
        # 2024-25 rank segments of MS MARCO v2.1; 2026 ranks ClimbMix, each topic to its own depth.
        Board(
            task="trec-rag",
            depths={
                r"msmarco_v2\.1_doc_[0-9]+_[0-9]+#[0-9]+_[0-9]+": 100,
                "shard_[0-9]{5}_[0-9]+": None,
            },
            scores="not rising",
            measures=["nDCG@20", "nDCG@30", "R@100"],
        ),
        # Its README: eight figures of trec_eval -c, against evidence and against gold documents.
        Board(
            task="browsecomp-plus",
            depths={_NUMBER: None},
            query_sets={"eval": 830},
            scores="not rising",
            measures=["nDCG@10", "Recall@5", "Recall@100", "Recall@1000"],
            judgements=["Evidence", "Gold"],
            facts=FactsFile(
                name="browsecomp-plus.json",
                fields={
                    "Retriever": "text",
                    "Evidence nDCG@10": "figure",
                    "Evidence Recall@5": "figure",
                    "Evidence Recall@100": "figure",
                    "Evidence Recall@1000": "figure",
                    "Gold nDCG@10": "figure",
                    "Gold Recall@5": "figure",
                    "Gold Recall@100": "figure",
                    "Gold Recall@1000": "figure",
                    "Link": "text",
                    "Evaluation Date": "date",
                },
            ),
        ),
        # CLEF: a folder with a run of each snapshot; its own files are in `longeval.py`.
        Board(task="longeval", depths={r"\S+": 1000}, scores="not rising"),
        Board(task="local", form="any", scores="not rising"),
    )
}


def read_board(path: Path) -> Board:
    """A task of a user's own: the same entry in a YAML file; `task` is the file's name unless set.

    Raises:
        InputError: every problem of the file, with its line: unknown keys, values of another type,
            patterns and measures that are none, and figures that no measure gives.
    """
    from raypipe.config.structure import structural_problems
    from raypipe.config.yaml import Problem, parse_yaml

    check_regular(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--task {path}: cannot be read: {error}") from None
    document = parse_yaml(text, origin=lambda line: f"{path}: line {line}")
    if isinstance(document.data, dict):
        document.data.setdefault("task", path.stem)
    problems = list(document.problems)
    try:
        board = Board.model_validate(document.data)
    except ValidationError as error:
        problems += structural_problems(error, document.data, Board)
    else:
        problems += [Problem(key, told) for key, told in _contradictions(board)]
    if problems:
        raise InputError([document.describe(problem) for problem in problems])
    return board


def _contradictions(board: Board) -> list[tuple[tuple[str, ...], str]]:
    """(key, message) of each measure that is none, and of each figure that no measure gives."""
    from raypipe.evaluation.names import parse_measures

    problems: list[tuple[tuple[str, ...], str]] = []
    try:
        parse_measures([name for name in board.measures if name not in SCRIPTS] or ["nDCG@10"])
    except InputError as error:
        problems += [(("measures",), told) for told in error.problems]
    for name, kind in (board.facts.fields if board.facts else {}).items():
        if kind == "figure" and name not in board.figures:
            expected = ", ".join(board.figures) or "measures"
            told = f"no measure gives this figure; expected one of {expected}"
            problems.append((("facts", "fields", name), told))
    return problems
