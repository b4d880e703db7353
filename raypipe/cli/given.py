"""Options of several commands: judgements and measures."""

from pathlib import Path
from typing import Annotated

import typer

from raypipe.uris import dataset_id
from raypipe.vocabulary import MEASURES

Qrels = Annotated[
    Path,
    typer.Option(
        help="Judgements: TREC, MS MARCO, BEIR, CSV, JSON, Parquet, or irds:ID of ir_datasets."
    ),
]
Measures = Annotated[
    str, typer.Option(help="Measures, named as in ir_measures (nDCG@10) or trec_eval (map).")
]


MEASURED = " ".join(MEASURES)
"""What commands measure by default."""


def on_disk(path: Path) -> list[Path]:
    """The path, unless it is the name of a data set of ir_datasets."""
    return [path] if dataset_id(path) is None else []
