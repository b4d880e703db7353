"""Encodes and scores texts with a model of sentence-transformers, on a worker.

Inputs of one number of tokens are computed together, without padding. Whether a row then keeps its
bits in any company is tested on the machine, and the numerics class says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.encoder import Encoder, all_finite
from raypipe.models.folder.files import check_unchanged
from raypipe.models.folder.model_folder import ModelFolder, here
from raypipe.models.library import (
    SIDES,
    hash_of,
    longest_of,
    specials_of,
)
from raypipe.models.library_class import CLASSES, LATE_CLASS, PROMPTED
from raypipe.models.library_open import explained, open_by_library
from raypipe.models.machine.device import BUDGET_TOKENS, Place, numerics_class, parts_that_fit
from raypipe.models.machine.precision import DTYPES, set_products
from raypipe.models.prompted import first_pieces
from raypipe.models.scorer import Scorer, scores_of
from raypipe.text.batches import batches
from raypipe.text.inputs import TextSlice
from raypipe.text.utf8 import strings_of

Beat = Callable[[Sequence[int]], None]
Float32 = NDArray[np.float32]
Int64 = NDArray[np.int64]
WINDOW = 1024
"""Inputs that are tokenised together: of them, those of one length are computed together."""
PAIRS = 1024
"""Pairs whose vectors of tokens a model of late interaction holds at a time."""
TESTED_WORDS = (3, 40)
"""Words of the texts that are computed together and alone."""
TESTED_TEXTS = 4
WORDS = "a driver of the night reads one long line and sends it home by rail".split()


class _Forward(ABC):
    """The model on a device, and its passes over inputs of one length."""

    engine: Any = None
    tokens_read = 0
    """Tokens of the last call."""

    def __init__(
        self,
        model: ModelFolder,
        *,
        device: str = "cpu",
        threads: int = 1,
        budget_tokens: int | None = None,
    ) -> None:
        """Open the folder's model.

        Raises:
            InputError: the files changed since they were found.
        """
        torch.set_num_threads(threads)
        folder = self.folder = here(model).folder
        self.name = model.config_read["class"]
        check_unchanged(f"{folder}: expected files", model.weights_sha256, hash_of(folder))
        how = model.reranker if self.name == PROMPTED else model.config_read["pooling"]
        self.model = open_by_library(folder, self.name, how, device)
        self._explained = partial(explained, folder, f"compute it as {self.name}")
        self.conventions: Any = model.conventions
        self.dim = model.dim
        self.place = Place(device, budget_tokens or BUDGET_TOKENS[device], "", model.precision)
        self.numerics = numerics_class(
            device,
            precision=model.precision,
            proven=self._tested(),
            how=f"sentence-transformers {model.config_read['sentence-transformers']}",
        )

    def results(
        self,
        inputs: Sequence[Any],
        beat: Beat = lambda rows: None,
        budget: int | None = None,
        *,
        side: str | None = None,
    ) -> Iterator[tuple[Int64, Float32]]:
        """(rows, their results) of inputs of one length, in parts of the budget.

        Inputs are cut to the settings' limit, where that is below the model's own.

        Args:
            inputs: texts of a side, or tuples of texts that are read together.
            beat: called with the rows of each part before it is computed.
            budget: tokens of a part.
            side: query or passage; None of tuples.
        """
        set_products(self.place.precision)
        prompt = self.conventions.prefix(side or "query")
        task = {} if side is None else {"task": SIDES[side]}
        cut: dict[str, Any] = {}
        if (limit := self._longest(side)) < longest_of(self.model, task.get("task")):
            cut = {"processing_kwargs": {"text": {"max_length": limit}}}
        sizes = [len(each) if side else sum(map(len, each)) for each in inputs]
        by_size = np.argsort(np.array(sizes, np.int64), kind="stable")
        for start in range(0, len(by_size), WINDOW):
            window = by_size[start : start + WINDOW]
            some = [inputs[row] for row in window.tolist()]
            with self._explained():
                features = self.model.preprocess(some, prompt=prompt or None, **task, **cut)
            for places, own, width in _of_one_length(features, len(window)):
                lengths = np.full(len(places), width, np.int64)
                for batch in batches(lengths, budget_tokens=self.place.budget(budget)):
                    beat(window[places[batch]].tolist())
                    self.tokens_read += width * len(batch)
                    for part in parts_that_fit(batch):
                        with part:
                            yield window[places[part.rows]], self._pass(own, task, part.rows)

    def _longest(self, side: str | None) -> int:
        """The most tokens of an input of a side, with special tokens; None of tuples."""
        own, encodes = self.conventions, CLASSES[self.name] == "encoder"
        return int(own.limit(side) + specials_of(self.model) if encodes else own.total_limit)

    @torch.inference_mode()
    def _pass(self, features: Mapping[str, Any], task: Mapping[str, str], rows: Int64) -> Float32:
        """The results of some rows of features, fp32."""
        device, low = self.place.device, self.place.precision in ("bf16", "fp16")
        count = len(features["input_ids"])
        some = {
            name: value[rows].to(device)
            if torch.is_tensor(value) and value.ndim and len(value) == count
            else value
            for name, value in features.items()
        }
        if "offsets" in some:
            some["offsets"] = torch.arange(len(rows), device=device) * some["input_ids"].shape[1]
            some["input_ids"] = some["input_ids"].flatten()
        with self._explained(), torch.autocast(device, DTYPES[self.place.precision], enabled=low):
            made = self.result(self.model(some, **task))
        result: Float32 = (made.to_dense() if made.is_sparse else made).float().cpu().numpy()
        return result

    @abstractmethod
    def result(self, made: Mapping[str, Tensor]) -> Tensor:
        """The part of the modules' results that is kept, by row."""

    @abstractmethod
    def sample(self, texts: Sequence[str]) -> Sequence[Any]:
        """Inputs with these texts."""

    def _tested(self) -> bool:
        """Whether some inputs have the same bits together and alone, on this machine.

        Raises:
            InputError: the library cannot compute them.
        """
        sides = (None,) if self.name in (PROMPTED, "CrossEncoder") else tuple(SIDES)
        for side, words in product(sides, TESTED_WORDS):
            inputs = self.sample([text_of(number, words) for number in range(TESTED_TEXTS)])
            together = dict[int, Float32]()
            for rows, found in self.results(inputs, side=side):
                together |= dict(zip(rows.tolist(), found, strict=True))
            for row, one in enumerate(inputs):
                ((_, alone),) = self.results([one], side=side)
                if alone[0].tobytes() != together[row].tobytes():
                    return False
        return True


def text_of(number: int, words: int) -> str:
    """A text of so many words, which has about as many pieces as any other of this length."""
    return " ".join(WORDS[(number + step) % len(WORDS)] for step in range(words))


def _of_one_length(
    features: Mapping[str, Any], count: int
) -> Iterator[tuple[Int64, dict[str, Any], int]]:
    """(places, features by place without padding, tokens of each) of the inputs of each length.

    Tokens by which a query is filled up count, whether the model attends to them or not.
    """
    if "offsets" in features:  # the word pieces of a StaticEmbedding, one text after another
        ids, starts = features["input_ids"], features["offsets"].numpy()
        bags = np.diff(starts, append=len(ids))
        for length in np.unique(bags).tolist():
            places = np.flatnonzero(bags == length)
            own = ids[torch.from_numpy(starts[places][:, None] + np.arange(length))]
            yield places, {"input_ids": own, "offsets": own[:, :1]}, max(length, 1)
        return
    used = features["attention_mask"].bool()
    if "query_expansion_positions" in features:
        used = used | features["query_expansion_positions"]
    lengths, width = np.maximum(used.sum(1).numpy(), 1).astype(np.int64), used.shape[1]
    left = bool((~used[:, 0] & used[:, -1]).any())
    for length in np.unique(lengths).tolist():
        places = np.flatnonzero(lengths == length)
        columns = slice(width - length, width) if left else slice(0, length)
        rows = dict(features)
        for name, value in features.items():
            if torch.is_tensor(value) and value.ndim and len(value) == count:
                rows[name] = value[places]
                if value.ndim > 1 and value.shape[1] == width:
                    rows[name] = rows[name][:, columns]
        yield places, rows, length


class LibraryEncoder(_Forward, Encoder):
    """An encoder of texts as UTF-8; see Encoder."""

    def result(self, made: Mapping[str, Tensor]) -> Tensor:
        """Vectors, [B, dim], or longer ones, of which dim numbers are kept.

        Raises:
            InputError: they have other dimensions than the modules state.
        """
        vectors, cut = made["sentence_embedding"], self.conventions.truncate_dim
        width = vectors.shape[1]
        if width < self.dim or (width > self.dim and cut is None):
            raise InputError(
                f"{self.folder}: expected embeddings of {self.dim} dimensions, as its modules "
                f"state, found {width}; correct the dimensions and module_output_name in their "
                "config.json"
            )
        return vectors

    def sample(self, texts: Sequence[str]) -> Sequence[str]:
        """The texts."""
        return texts

    def encode(
        self,
        flat: NDArray[Any],
        offsets: Int64,
        *,
        side: str,
        budget_tokens: int | None = None,
        beat: Beat = lambda rows: None,
    ) -> Float32:
        """Vectors of all texts in order, fp32 [N, dim]; see Encoder."""
        own, self.tokens_read = self.conventions, 0
        texts = strings_of(TextSlice(flat, offsets[:-1], np.diff(offsets)))
        out = np.empty((len(texts), self.dim), np.float32)
        for rows, found in self.results(texts, beat, budget_tokens, side=side):
            vectors = torch.from_numpy(found[:, : self.dim])
            out[rows] = F.normalize(vectors, dim=1) if own.normalise else vectors
        return all_finite(out)

    def num_tokens(self, offsets: Int64, side: str) -> int:
        """Tokens that the last `encode` read."""
        return self.tokens_read


class LibraryScorer(_Forward, Scorer):
    """A reranker of texts as UTF-8; see Scorer."""

    def result(self, made: Mapping[str, Tensor]) -> Tensor:
        """The head's units, [B, U]; of late interaction the vectors of tokens, and who counts."""
        if self.name == LATE_CLASS:
            return torch.cat([made["token_embeddings"], made["attention_mask"][..., None]], dim=2)
        return made["scores"].reshape(len(made["scores"]), -1)

    def sample(self, texts: Sequence[str]) -> Sequence[Any]:
        """The texts as queries and passages."""
        if self.name == LATE_CLASS:
            return texts
        return [(text, *[text] * self.conventions.num_passages) for text in texts]

    def score(
        self,
        query: TextSlice,
        passages: Sequence[TextSlice],
        *,
        budget_tokens: int | None = None,
        beat: Beat = lambda rows: None,
    ) -> Float32:
        """One score per input, float32 [B]; see Scorer."""
        own, self.tokens_read = self.conventions, 0
        texts = [strings_of(query), *(strings_of(each) for each in passages)]
        if self.name == LATE_CLASS:
            return self._late(texts[0], texts[1], budget_tokens, beat)
        if self.name == "CrossEncoder" and own.query_limit is not None:
            texts = self._cut_texts(texts[0], texts[1])
        out = np.empty(len(texts[0]), np.float32)
        pairs = [*zip(*texts, strict=True)]
        for rows, units in self.results(pairs, beat, budget_tokens):
            out[rows] = scores_of(units.astype(np.float64), own)
        return out

    def num_tokens(self, query: TextSlice, passages: Sequence[TextSlice]) -> int:
        """Tokens that the last `score` read."""
        return self.tokens_read

    def _cut_texts(self, queries: Sequence[str], passages: Sequence[str]) -> list[list[str]]:
        """Queries of at most query_limit pieces, and passages of what is then left for them."""
        own, tokenizer = self.conventions, self.model.tokenizer
        kept = first_pieces(tokenizer, queries, [own.query_limit] * len(queries))
        counts = [len(ids) for ids in tokenizer(kept, add_special_tokens=False).input_ids]
        room = own.total_limit - int(tokenizer.num_special_tokens_to_add(True))
        most = [min(room - count, own.passage_limit or room) for count in counts]
        return [kept, first_pieces(tokenizer, passages, most)]

    def _late(
        self, queries: Sequence[str], passages: Sequence[str], budget: int | None, beat: Beat
    ) -> Float32:
        """The sum over a query's tokens of each one's largest product with one of the passage's.

        Without a token on a side it is the library's. Source: Khattab & Zaharia 2020 (ColBERT),
        section 3.3; of `meanmaxsim` the mean.
        """
        own, out = self.conventions, np.empty(len(queries), np.float32)
        limits = (("query", queries, own.query_limit), ("passage", passages, own.passage_limit))
        tokenizer, mean = self.model.tokenizer, self.model.similarity_fn_name == "meanmaxsim"
        both = [
            (side, texts if most is None else first_pieces(tokenizer, texts, [most] * len(texts)))
            for side, texts, most in limits
        ]
        for start in range(0, len(queries), PAIRS):
            rows = range(start, min(start + PAIRS, len(queries)))
            beat([*rows])
            vectors = {
                side: self._vectors(side, [texts[row] for row in rows], budget)
                for side, texts in both
            }
            for row in rows:
                query, passage = (vectors[side][texts[row]] for side, texts in both)
                if query.size and passage.size:  # the library takes a millisecond for each pair
                    largest = (query @ passage.T).max(axis=1)
                    out[row] = largest.mean() if mean else largest.sum()
                else:
                    out[row] = self.model.similarity_pairwise([query], [passage])[0]
        return out

    def _vectors(
        self, side: str, texts: Sequence[str], budget: int | None
    ) -> Mapping[str, Float32]:
        """The vectors of the tokens that count, float32 [L, dim], by text."""
        vectors, distinct = dict[str, Float32](), [*dict.fromkeys(texts)]
        for rows, states in self.results(distinct, budget=budget, side=side):
            for row, each in zip(rows.tolist(), states, strict=True):
                vectors[distinct[row]] = each[each[:, -1] > 0, :-1]
        return vectors
