"""The check for collections whose ids are declared to be 0 to n-1 in order (MS MARCO v1)."""

from collections.abc import Iterable, Sequence

from raypipe.data.files.problems import Problems
from raypipe.data.formats.fields import shown


def check_dense_ids(batches: Iterable[Sequence[str]], *, name: str) -> None:
    """Returns nothing if the ids, in row order from row 0, are "0", "1", ... in plain decimal.

    A gap shifts every id after it. A negative, repeated, out-of-range or padded ("007") id, or one
    beyond int64, also differs from its row.

    Args:
        batches: ids in batches of any size.
        name: the collection's name, for messages.

    Raises:
        InputError: the first ten ids that differ from their row, and the number of all.
    """
    problems = Problems()
    row = 0
    for batch in batches:
        for passage_id in batch:
            if passage_id != str(row):
                problems.add(f"{name}: row {row:,}: expected id {row}, found {shown(passage_id)}")
            row += 1
    problems.raise_if_any()
