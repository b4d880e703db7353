"""The growing table of one model's scores for one query set, as stores.

tokens@MODEL.SET; for part N: candidates@MODEL.SET.N -> pieces@MODEL.SET.N (unless the word pieces
of the whole collection exist) -> scores@MODEL.SET.N
"""

from dataclasses import dataclass, replace

from raypipe import schema
from raypipe.driver.recipe.basis import Basis
from raypipe.driver.recipe.chain import Chain
from raypipe.models.folder.model_folder import ModelFolder
from raypipe.names import Role, StoreName, scoring_of, tokens_of
from raypipe.stages.scoring.candidates import CandidatesStage, Part, candidates_spec
from raypipe.stages.scoring.requests import Asking
from raypipe.stages.scoring.score import ScoreStage, score_spec
from raypipe.stages.scoring.token_rows import PassageTokensStage
from raypipe.stages.texts.tokenize import TokenizeStage
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored, committed


@dataclass(frozen=True)
class ScoreTable:
    """The growing table of one model's scores for one query set."""

    basis: Basis
    model_name: str
    query_set: str
    model: ModelFolder
    base: StageSpec

    def parts(
        self, request: Asking, run: Stored, *, stands: bool
    ) -> tuple[tuple[Part, ...], Chain]:
        """Every part, after completing the request's own, and the stores that this took.

        With `stands` the selection is already stored: nothing is computed, the stores are only
        named.
        """
        asked = request.digest(run)
        before: list[Part] = []
        while True:
            number = len(before) + 1
            found = self._candidates(number)
            if found is None and stands:
                return tuple(before), Chain(held=True, whole=False)
            if found is None or found.manifest.records[0].facts["request"] == asked:
                planned = CandidatesStage(self.base, number, run, request, tuple(before))
                store = self._store(Role.CANDIDATES, number)
                part = Part(self.basis.stores.ensure(store, planned), None)
                if part.candidates.manifest.records[0].facts["request"] == asked:
                    return self._complete(number, part, before)
            else:
                part = Part(found, None)
            before.append(replace(part, scores=self._committed(number, part)))

    def held(self) -> tuple[Part, ...]:
        """Every part as far as it is committed."""
        found: list[Part] = []
        while (stored := self._candidates(len(found) + 1)) is not None:
            part = Part(stored, None)
            found.append(replace(part, scores=self._committed(len(found) + 1, part)))
        return tuple(found)

    def _candidates(self, number: int) -> Stored | None:
        store = self._store(Role.CANDIDATES, number)
        return self.basis.stores.find(store, candidates_spec(self.base, number))

    def _store(self, role: Role, number: int) -> StoreName:
        return scoring_of(role, self.model_name, self.query_set, number)

    def _complete(
        self, number: int, part: Part, before: list[Part]
    ) -> tuple[tuple[Part, ...], Chain]:
        query_tokens = self.basis.tokens(self.model_name, self.query_set)
        whole = self._whole_tokens()
        store = self._store(Role.PIECES, number)
        if whole is None:
            stage = PassageTokensStage(self.basis.collection(), part, self.model)
            tokens = self.basis.stores.ensure(store, stage)
        else:
            tokens = whole
        scoring = ScoreStage(
            self.base,
            part,
            self.model,
            query_tokens,
            tokens,
            whole is not None,
            self.basis.sides(self.query_set),
            self.basis.hashes(),
            self.basis.budget_tokens,
            self.basis.needs,
        )
        scores = self._store(Role.SCORES, number)
        done = replace(part, scores=self.basis.stores.ensure(scores, scoring))
        paid = part.num_rows == part.candidates.manifest.records[0].facts["wanted"]
        stores = [tokens_of(self.model_name, self.query_set)]
        stores += [self._store(Role.CANDIDATES, number)]
        stores += [store] if whole is None else []
        return (*before, done), Chain((*stores, scores), held=not paid)

    def _committed(self, number: int, part: Part) -> Stored | None:
        spec = score_spec(self.base, part)
        store = self._store(Role.SCORES, number)
        return committed(part.candidates.storage, str(store), spec)

    def _whole_tokens(self) -> Stored | None:
        """Word pieces of the whole collection, if they exist for a model with this tokenizer."""
        prefix = self.model.conventions.prefix("passage")
        stage = TokenizeStage(self.basis.collection(), schema.PASSAGES, self.model, prefix)
        found = (
            self.basis.stores.find(tokens_of(name), stage.spec) for name in self.basis.recipe.models
        )
        return next((stored for stored in found if stored is not None), None)
