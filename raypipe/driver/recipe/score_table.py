"""The scores of a stage's candidates, and what they take.

pieces@STAGE.SET (unless the word pieces of the whole collection exist) -> scores@STAGE.SET
"""

from raypipe import schema
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.chain import Chain
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.names import Role, StoreName, of_stage, tokens_of
from raypipe.stages.scoring.candidates import Candidates
from raypipe.stages.scoring.score import ScoreStage, score_base
from raypipe.stages.scoring.scored import Scored
from raypipe.stages.scoring.token_rows import PassageTokensStage
from raypipe.stages.texts.tokenize import TokenizeStage
from raypipe.storage.store import Stored


def scored(
    basis: Basis,
    store: StoreName,
    model: ModelFolder,
    candidates: Candidates,
) -> tuple[Scored, Chain]:
    """One score for each candidate, and the stores that this took.

    Scores that an older store has for the same texts are copied, whatever asked for them.

    Args:
        basis: of the recipe.
        store: the name of the scores; its owner is the stage.
        model: with the score that the stage wants.
        candidates: of one query set.
    """
    query_set = store.query_set
    assert query_set is not None
    sides, taken = basis.sides(query_set), list[StoreName]()
    whole = _whole_tokens(basis, model)
    passage_tokens = whole
    if passage_tokens is None:
        role = Role.FILLED_PIECES if store.role is Role.FILLED else Role.PIECES
        taken.append(of_stage(store.owner, query_set, role))
        pieces = PassageTokensStage(basis.collection(), candidates, model)
        passage_tokens = basis.stores.ensure(taken[-1], pieces)
    scoring = ScoreStage(
        score_base(model, sides.collection, sides.queries),
        candidates,
        model,
        passage_tokens,
        whole is not None,
        sides,
        basis.ids(),
        basis.budget_tokens,
        basis.needs,
    )
    return Scored(candidates, basis.stores.ensure(store, scoring)), Chain((*taken, store))


def _whole_tokens(basis: Basis, model: ModelFolder) -> Stored | None:
    """Word pieces of the whole collection, if they exist for a model with this tokenizer."""
    prefix = model.conventions.prefix("passage")
    stage = TokenizeStage(basis.collection(), schema.PASSAGES, model, prefix)
    found = (basis.stores.find(tokens_of(name), stage.spec) for name in basis.recipe.models)
    return next((stored for stored in found if stored is not None), None)
