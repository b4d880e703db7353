"""The check for collections whose ids are declared to be 0 to n-1 in order (MS MARCO v1)."""

from collections.abc import Iterable, Sequence

from raypipe.data.files.problems import Problems
from raypipe.data.formats.fields import shown


def check_dense_ids(batches: Iterable[Sequence[str]], *, name: str) -> None:
    """Pass where the ids, given in row order from row 0, are "0", "1", ... in plain decimal.

    A gap shifts every id behind it; a negative, repeated, out-of-range or padded ("007") id, or
    one beyond int64, differs from its row all the same.

    Args:
        batches: ids in batches of any size.
        name: the collection's, for messages.

    Raises:
        InputError: the first ten ids that are not their row and a count of all.
    """
    problems = Problems()
    row = 0
    for batch in batches:
        for passage_id in batch:
            if passage_id != str(row):
                problems.add(f"{name}: row {row:,}: expected id {row}, found {shown(passage_id)}")
            row += 1
    problems.raise_if_any()
