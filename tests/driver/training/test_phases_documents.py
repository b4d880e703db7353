"""A phase whose examples are passages of documents, chosen by an earlier phase's model."""

import numpy as np
import pyarrow as pa
import pytest
from documents_training import DocumentRecipes
from small_training import Recipes, train

from raypipe import schema
from raypipe.driver.training import train as driver
from raypipe.driver.upkeep.status import open_workspace
from raypipe.driver.upkeep.verify import verify
from raypipe.evaluation.measures import evaluate
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.load import load_scorer
from raypipe.ranking.documents import document_scores
from raypipe.stages.documents.passage_map import PassageMap
from raypipe.stages.scoring.token_rows import TokenRows
from raypipe.training.examples import map_examples
from raypipe.training.validate import dev_of


@pytest.fixture(scope="module")
def ended(small_files, tiny_model, tmp_path_factory):
    """The folder of a finished training of two phases, its last phase's job, and what it told."""
    folder, jobs, real = tmp_path_factory.mktemp("pages"), [], driver.finish

    def finish(job, *given):
        jobs.append(job)
        return real(job, *given)

    recipes = Recipes(small_files, tiny_model, folder).write
    path = DocumentRecipes(small_files, recipes, folder).write(optimiser={"warmup": 0}, steps=2)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(driver, "finish", finish)
        trained = train(path, folder / "out")
    return folder / "out", jobs[-1], trained


@pytest.mark.slow
def test_only_the_best_passages_of_a_relevant_document_are_learnt(ended):
    out, job, trained = ended
    (stores,) = job.train
    examples = stores.examples.path(stores.examples.manifest.records[0])
    found = map_examples(examples)
    known = PassageMap(job.dev[0].documents.map)
    scorer = load_scorer(resolve_model(str(out / "models" / "small.passages")))
    queries, passages = TokenRows(stores.query_tokens), TokenRows(stores.passage_tokens)
    learnt = {}
    for query, (relevant, other) in zip(found.query_rows, found.passage_rows, strict=True):
        document = known.documents(np.array([relevant, other]))
        assert document[0] != document[1] and (known.windows(np.array([relevant, other])) < 4).all()
        learnt.setdefault((int(query), int(document[0])), []).append(int(relevant))
    whole = {pair: rows for pair, rows in learnt.items() if len(rows) == 2}
    assert len(whole) > 5, "the others were cut by examples_at_most"
    for (query, document), rows in whole.items():
        _, own = known.passages(np.array([document]), 4)
        scores = scorer.score(queries.part(np.full(len(own), query)), [passages.part(own)])
        best = np.sort(own[np.argsort(-scores, kind="stable")[:2]])
        assert rows == best.tolist()
    told = trained.summary["examples"]["pages"]["documents"]
    assert told["not_best"] > 0 and "not among the best of their document" in trained.table
    assert verify(open_workspace(out)) == []


def test_a_checkpoint_is_measured_by_the_scores_of_its_documents(ended):
    """The last checkpoint's measure once more, from the model folder."""
    _, job, trained = ended
    (dev,) = dev_of(job)
    model = resolve_model(str(trained.model))
    scorer = load_scorer(model)
    assert (dev.documents.method, dev.documents.k) == ("k-max-avgp", 2)
    run = dev.documents.run
    rows, of = run["passage_row"].to_numpy(), run["query_row"].to_numpy()
    log_p = scorer.score(dev.queries.part(of), [dev.passages.part(rows)]).astype(np.float64)
    raw = (log_p - np.log(-np.expm1(log_p))).astype(np.float32)
    places = (dev.documents.map.documents(rows), dev.documents.map.windows(rows))
    found = document_scores(of, *places, raw, method="k-max-avgp", k=2)
    by_pair = {(q, d): s for q, d, s in zip(*(part.tolist() for part in found), strict=True)}
    lines = []
    for query in sorted(set(dev.run["query_row"].to_pylist())):
        kept = dev.run.filter(np.equal(dev.run["query_row"].to_numpy(), query)).to_pylist()
        first = sorted(
            (line for line in kept if line["rank"] <= 5),
            key=lambda line: (-by_pair[query, line["passage_row"]], line["passage_row"]),
        )
        order = [*first, *(line for line in kept if line["rank"] > 5)]
        for rank, line in enumerate(order, 1):
            names = dev.query_ids[query], dev.passage_ids[line["passage_row"]]
            lines.append((*names, rank, np.float32(-rank)))
    columns = [pa.array(column) for column in zip(*lines, strict=True)]
    table = pa.table([c.cast(f.type) for c, f in zip(columns, schema.RUN_FILE, strict=True)],
                     schema=schema.RUN_FILE)  # fmt: skip
    expected = evaluate(table, dev.qrels, ["nDCG@10"]).mean["nDCG@10"]
    assert trained.summary["history"][-1]["mean"] == pytest.approx(expected, abs=1e-9)
    assert 0 < expected < 1
