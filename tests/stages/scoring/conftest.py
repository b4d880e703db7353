"""What tests of scoring share: score stages over given texts, and what a scorer was given."""

import pytest
from given_scores import Given
from stage_inputs import pieces

from raypipe import schema
from raypipe.models.folder.model_folder import resolve_model
from raypipe.models.scorer import Scorer
from raypipe.stages.scoring.score import ScoreStage, score_base
from raypipe.stages.tables import Sides


class Scoring:
    """Stages over given texts and candidates (query, passage, other passage or -1)."""

    def __init__(self, stores):
        self.stores = stores

    def stage(self, model, queries, passages, lines, *, whole=True, **settings):
        """whole: all passages have word pieces, not only those of the candidates."""
        collection, asked = self.stores.passages(passages), self.stores.queries(*queries)
        named = sorted({row for line in lines for row in line[1:] if row >= 0})
        held = passages if whole else [passages[row] for row in named]
        return ScoreStage(
            score_base(model, collection, asked),
            Given(*lines),
            model,
            self.stores.tokens(pieces(model, held)),
            whole,
            Sides(asked, collection),
            self.stores.hashes(collection),
            **settings,
        )

    def scores(self, *given, sizing=None, **settings):
        stored = self.stores.finished(self.stage(*given, **settings), sizing)
        return stored.whole_table(schema.SCORES)["score"].to_pylist()


@pytest.fixture
def scoring(stores):
    return Scoring(stores)


@pytest.fixture
def mono(tiny_mono):
    return resolve_model(str(tiny_mono))


@pytest.fixture
def seen(monkeypatch):
    """The first word piece of each scored query with all pieces of its passages."""
    found, score = [], Scorer.score

    def scored(scorer, queries, passages, **settings):
        for number in range(len(queries.starts)):
            sides = [of_input(side, number) for side in (queries, *passages)]
            found.append((sides[0][0], *map(tuple, sides[1:])))
        return score(scorer, queries, passages, **settings)

    monkeypatch.setattr(Scorer, "score", scored)
    return found


def of_input(side, number):
    start = side.starts[number]
    return side.flat[start : start + side.counts[number]].tolist()
