"""What a store will hold and take before it is there: its stage says it, a forecast adds it up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from raypipe.storage.records import Json, Shard
from raypipe.storage.spec import StageSpec
from raypipe.storage.store import Stored

if TYPE_CHECKING:
    from raypipe.models.folder.model_folder import ModelFolder
    from raypipe.stages.stage import Sizing, Stage
    from raypipe.stages.texts.sample import ModelInputs, Sample
    from raypipe.text.inputs import TextSlice

UNTIMED = "the time of approximate search is not forecast"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Expected:
    """A store that is not there yet, as far as its stage can say without computing it."""

    shards: Sequence[Shard]
    """The plan; the stage's own may have to read stores that are not there."""
    num_bytes: float
    """Of its payloads."""
    seconds: float = 0.0
    """CPU seconds beside a model's forward passes."""
    inputs: ModelInputs | None = None
    facts: Mapping[str, Json] = field(default_factory=dict)
    """Those of the records that later stages read; a whole number is that of all rows together."""
    payload: bytes = b""
    """A payload that a later stage reads while it is planned."""
    sample: Sample | None = None
    """Of a table of texts."""
    pieces: TextSlice | None = None
    """Of a store of word pieces: those of sampled rows."""
    note: str = ""
    """For people who read the forecast."""

    @property
    def num_rows(self) -> int:
        """Of all shards."""
        return sum(shard.num_rows for shard in self.shards)


@dataclass
class Expectations:
    """The stores of a recipe before they are there, for the stages that read them.

    Each table of texts is sampled once, and its sample tokenised once by each tokenizer.
    """

    sizing: Sizing
    _expected: dict[str, Expected] = field(default_factory=dict)
    """Of stores that are not there, by their origin."""
    _stages: dict[str, list[Stage]] = field(default_factory=dict)
    _samples: dict[str, Sample] = field(default_factory=dict)
    _pieces: dict[tuple[object, ...], tuple[TextSlice, float]] = field(default_factory=dict)

    def has(self, stored: Stored) -> bool:
        """Whether the store is there, so that its payloads can be read."""
        return stored.origin not in self._expected

    def add(self, stored: Stored, expected: Expected) -> None:
        """A store that is not there."""
        self._expected[stored.origin] = expected

    def passed(self, spec: StageSpec, stage: Stage) -> None:
        """A stage, with its spec, of which later ones may take rows."""
        self._stages.setdefault(spec.reuse_key, []).append(stage)

    def earlier(self, reuse_key: str) -> Sequence[Stage]:
        """The recipe's stages before this one with a `reuse_key`, whether their stores are there
        or not."""
        return self._stages.get(reuse_key, ())

    def sample(self, texts: Stored) -> Sample:
        """Some rows of a table of texts; its stage has them if it is not there."""
        from raypipe.stages.texts.sample import sample_of_stored

        if texts.origin in self._expected:
            sample = self._expected[texts.origin].sample
            assert sample is not None  # as every table of texts has
            return sample
        if texts.origin not in self._samples:
            self._samples[texts.origin] = sample_of_stored(texts)
        return self._samples[texts.origin]

    def pieces(self, texts: Stored, model: ModelFolder, prefix: str) -> tuple[TextSlice, float]:
        """The word pieces of the sampled texts, and the CPU seconds that each text took."""
        from raypipe.stages.texts.sample import tokenized_sample
        from raypipe.stages.texts.tokenize import piece_settings

        key = (texts.origin, *piece_settings(model, prefix).values())
        if key not in self._pieces:
            self._pieces[key] = tokenized_sample(self.sample(texts), model, prefix)
        return self._pieces[key]

    def stored_pieces(self, tokens: Stored) -> TextSlice:
        """The word pieces of some rows of a store of them."""
        from raypipe.stages.texts.sample import pieces_of_stored

        if tokens.origin in self._expected:
            pieces = self._expected[tokens.origin].pieces
            assert pieces is not None  # as every store of word pieces has
            return pieces
        return pieces_of_stored(tokens)


def sum_of(fact: str, stored: Stored) -> int:
    """A fact of a store's records, added up; also where the store is only expected."""
    return sum(int(record.facts[fact]) for record in stored.manifest.records)
