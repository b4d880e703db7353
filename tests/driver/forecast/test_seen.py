"""What stages may ask: of stores that are there, what they hold."""

import numpy as np
import pytest
from given_stores import Stores
from watchers import Silent

from raypipe import schema
from raypipe.driver.forecast.seen import SeenStores, outlook_of
from raypipe.driver.pipeline import Options, run_pipeline
from raypipe.driver.upkeep.status import open_workspace
from raypipe.models.folder.loading import resolve_model
from raypipe.stages.encode import EncodeStage
from raypipe.stages.stage import Sizing
from raypipe.stages.texts.tokenize import TokenizeStage
from raypipe.storage.ledger import read_manifest
from raypipe.storage.store import Stored


@pytest.fixture
def stored(recipe, tmp_path):
    """A function that gives a store of the recipe's workspace."""
    run_pipeline(recipe(), tmp_path / "work", Options(), watcher=Silent())
    workspace = open_workspace(tmp_path / "work")

    def find(store):
        manifest = read_manifest(workspace.stores, store, workspace.refs()[store])
        return Stored(workspace.stores, manifest)

    return find


def test_stores_that_are_there_tell_their_lines_texts_pieces_and_candidates(stored, tiny_model):
    run = outlook_of(stored("given.dev")).run
    assert (run.lines.tolist(), run.num_queries, run.num_passages) == ([5.0] * 12, 12, 17)
    assert run.line_bytes == stored("given.dev").num_bytes / 60
    texts = outlook_of(stored("passages@collection")).sample
    assert len(texts.texts) == texts.num_rows == 230 and texts.share == 1.0
    assert len(outlook_of(stored("queries@dev")).sample.texts) == 12
    tokens = outlook_of(stored("tokens@tiny"))
    seen = SeenStores(Sizing())
    made = seen.pieces(stored("passages@collection"), resolve_model(str(tiny_model), None), "")
    assert tokens.pieces.flat.tolist() == made.flat.tolist()
    assert tokens.pieces.offsets.tolist() == made.offsets.tolist()
    assert tokens.facts["pieces"] == len(made.flat)
    mono = outlook_of(stored("candidates@mono.dev.1"))
    assert mono.facts["first"] == 10 and mono.run.lines.tolist() == [10.0] * 12
    duo = outlook_of(stored("candidates@duo.dev.1"))
    assert duo.facts["first"] == 4 and duo.run.lines == pytest.approx(np.full(12, 4.0))


def test_a_query_set_without_queries_is_nothing_to_encode(tmp_path, tiny_model):
    stores, model = Stores(tmp_path), resolve_model(str(tiny_model), None)
    tokens = stores.finished(TokenizeStage(stores.queries(), schema.QUERIES, model))
    found = EncodeStage(tokens, model, "query").outlook(SeenStores(Sizing()))
    assert (found.num_rows, found.inputs.num_tokens) == (0, 0.0)


def test_a_search_of_a_sample_goes_as_deep_as_its_share(stored):
    seen, queries, passages = (
        SeenStores(Sizing()),
        stored("queries@dev"),
        stored("passages@collection"),
    )
    whole = seen.of(passages).sample
    assert seen.found(queries, passages, 7).shape == (12, 7)
    matching = seen.matching(queries, passages)
    seen._real[passages.origin] = type(seen.of(passages))(
        num_rows=2300, sample=type(whole)(whole.texts, 2300)
    )
    seen._resembling.clear()
    assert seen.found(queries, passages, 71).shape == (12, 8)  # a tenth, rounded up
    assert seen.found(queries, passages, 3, least=2).shape == (12, 2)
    assert seen.matching(queries, passages) == pytest.approx(10 * matching)
    rows, scores = seen.ranked(queries, passages, 5)
    first = seen.found(queries, passages, 50)
    assert rows.tolist() == np.where(first < 0, -1, 10 * first).tolist()
    assert (np.diff(scores, axis=1) <= 0).all()


def test_there_is_told_from_expected(stored, recipe):
    seen, vectors = SeenStores(Sizing()), stored("vectors")
    assert seen.has(vectors) and seen.readable(vectors)
    seen.expected[vectors.origin] = outlook_of(vectors)
    assert not seen.has(vectors) and not seen.readable(vectors)
