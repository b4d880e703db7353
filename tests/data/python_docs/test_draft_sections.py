import pytest

from raypipe.data.python_docs.build import (
    sized,
)
from raypipe.data.python_docs.draft import Draft


@pytest.fixture(scope="module")
def draft(docs_draft: Draft) -> Draft:
    return docs_draft


def test_known_sections_of_the_documentation_are_found(draft: Draft) -> None:
    everything = sized(draft, max_passages=100_000)
    ids = {passage_id for passage_id, _ in everything.passages}
    assert {"heapq.heappush#1", "builtins.str.upper#1"} <= ids
    queries = {key: text for rows in everything.queries.values() for key, text in rows}
    assert queries["collections.OrderedDict.move_to_end"] == "collections ordered dict move to end"
    assert queries["builtins.str.upper"] == "builtins str upper"
    assert queries["topics.string-methods-str-center"] == "string methods str center"
    left_out = ("tkinter.", "idlelib.", "test.", "site.", "numpy.", "pytest.", "antigravity#")
    assert not [each for each in ids if each.startswith(left_out)]
