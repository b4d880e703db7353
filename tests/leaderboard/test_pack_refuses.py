"""What pack must not mend: ranks that are no ranking, in a file that ranks alone decide."""

import bz2
import json

import pytest

from raypipe.errors import InputError
from raypipe.leaderboard.boards import BOARDS
from raypipe.leaderboard.submission import RunSide, pack

SMALL = BOARDS["msmarco-passage"].model_copy(
    update={"depths": {"[0-9]+": 3}, "num_passages": 100, "query_sets": {"dev": 1}}
)
METADATA = {"team": "t", "model_description": "d", "paper": "", "code": "", "type": "reranking"}
ID = "20261120-mine"


def packed(tmp_path, ranks, fill=None):
    (tmp_path / "dev.tsv").write_text(
        "".join(
            f"7\t{passage}\t{rank}\n" for passage, rank in zip((10, 11, 12), ranks, strict=True)
        )
    )
    (tmp_path / "metadata.json").write_text(json.dumps(METADATA))
    side = RunSide(run=tmp_path / "dev.tsv", fill=fill)
    return pack(
        SMALL,
        {"dev": side},
        submission=ID,
        metadata=tmp_path / "metadata.json",
        out=tmp_path / "out",
    )


@pytest.mark.parametrize("ranks", [(1, 2, 4), (0, 1, 2), (2, 3, 4), (1, 1, 2), (1, 3, 3)], ids=str)
def test_ranks_that_are_not_1_2_3_are_refused_and_nothing_is_written(tmp_path, ranks):
    with pytest.raises(InputError, match="ranks: 1 queries have other ranks than 1, 2, 3"):
        packed(tmp_path, ranks)
    assert not (tmp_path / "out").exists()


def test_an_earlier_run_to_fill_from_does_not_mend_them(tmp_path):
    (tmp_path / "bm25.tsv").write_text("7\t10\t1\n7\t11\t2\n7\t13\t3\n")
    with pytest.raises(InputError, match="ranks: 1 queries"):
        packed(tmp_path, (1, 2, 4), fill=tmp_path / "bm25.tsv")


def test_lines_in_another_order_than_their_ranks_are_written_by_rank(tmp_path):
    found = packed(tmp_path, (3, 1, 2))
    written = bz2.decompress((found.folder / "dev.txt.bz2").read_bytes()).decode()
    assert written == "7\t11\t1\n7\t12\t2\n7\t10\t3\n"


def test_a_file_in_the_place_of_the_folder_is_refused_before_the_runs_are_read(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(InputError, match="--out .*: expected a folder, found the file .*/out;"):
        packed(tmp_path, (1, 2, 4))
