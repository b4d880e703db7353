"""Compares packed models with their own libraries, in a process of its own.

`python -m raypipe.driver.proof.reference` reads pickled `Subject`s from stdin and writes one JSON
list of findings to stdout. Importing sentence-transformers takes ten seconds and half a gigabyte,
which no run of a packed model pays.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.torch import save_file

from raypipe.driver.proof.proof import Subject
from raypipe.driver.proof.texts import pairs_of, rare_differences, rare_parts, texts_of
from raypipe.errors import InputError, RaypipeError, RowsFailed, first_line, shown
from raypipe.models.encoder import Encoder
from raypipe.models.family import UNSTATED, plain_names
from raypipe.models.folder.model_folder import (
    ModelFolder,
    layouts_of,
    load_weights,
    open_tokenizer,
)
from raypipe.models.folder.settings import (
    SPLADE_LOG,
    AnyConventions,
    Conventions,
    PairConventions,
    units_of,
)
from raypipe.models.library_open import every_weight, why_not_opened
from raypipe.models.load import load_encoder, load_scorer
from raypipe.models.packed import attend_by_length, groups_of
from raypipe.models.scorer import scores_of
from raypipe.models.tensors import with_third_segment
from raypipe.stages.tokenize import tokenized
from raypipe.text.inputs import Inputs, Layout, Layouts, TextSlice, cut_to, make_inputs

TOLERANCE = 1e-4
RELATIVE = 1e-5
"""The tolerance of values beyond 10, as a part of each: fp32 has seven digits."""
WEIGHTS = "model.safetensors"
SHOWN_TOKENS = 6
COSTLY_TOKENS = 1024
"""Of an input: of longer ones a single value is compared, which takes seconds on a core."""
SIDES = ("query", "passage")
Row = Sequence[str]
"""The texts of one input: one, or a query with one or two passages."""
Pieces = Callable[[list[str], str], TextSlice]
"""Word pieces of texts of a side, query or passage."""
Input = tuple[list[int], list[int]]
"""Token ids and segments."""


class NoValueError(InputError):
    """A model has no finite value, by its library's computation too."""


class ReferenceModel(Protocol):
    """A model as its own library opens it."""

    tokenizer: Any
    """As transformers has it; None if the library has none."""

    def other_settings(self, own: AnyConventions) -> str:
        """The difference of a setting that no value tells; empty if there is none."""

    def inputs(self, side: str, rows: Sequence[Row]) -> list[Input]:
        """The inputs that the library makes, without computing anything."""

    def values(self, side: str, rows: Sequence[Row], batch: int) -> list[NDArray[np.float32]]:
        """The values that the library computes of each row, in batches of so many rows."""

    def ours(
        self, packed: PackedModel, side: str, rows: Sequence[Row]
    ) -> list[NDArray[np.float32]]:
        """The values of raypipe, with which those of the library are compared."""


class PackedModel:
    """The model as raypipe computes it."""

    def __init__(self, model: ModelFolder, threads: int) -> None:
        """Open tokenizer and layouts; weights are read when values are asked for."""
        self.model, self.threads = model, threads
        self._encoders: dict[str, Encoder] = {}
        self.tokenizer = open_tokenizer(model)
        self.layouts: Layouts = layouts_of(model)
        own = model.conventions
        if isinstance(own, Conventions) and own.by_table("query"):
            self.layouts = {**self.layouts, "query": Layout(None, (), None, (0,))}

    def pieces(self, texts: list[str], side: str) -> TextSlice:
        """The word pieces that stages store."""
        flat, offsets = tokenized(self.tokenizer, self.model, texts, side)
        return TextSlice(flat, offsets[:-1], np.diff(offsets))

    def made(self, side: str, rows: Sequence[Row], pieces: Pieces | None = None) -> Inputs:
        """The inputs of these rows, from raypipe's own word pieces or from others."""
        columns = [list(column) for column in zip(*rows, strict=True)]
        layout, pieces = self.layouts[side], pieces or self.pieces
        if side != "pair":
            (text,) = (pieces(column, side) for column in columns)
            counts = np.minimum(text.counts, self.model.encoder.limit(side))
            return make_inputs([replace(text, counts=counts)], layout)
        query, *passages = (pieces(c, "passage" if n else "query") for n, c in enumerate(columns))
        limits, specials = self.model.reranker, layout.num_specials
        return make_inputs(cut_to(limits, query, passages, num_specials=specials), layout)

    def inputs(self, side: str, rows: Sequence[Row], pieces: Pieces | None = None) -> list[Input]:
        """The same one by one."""
        return separate(self.made(side, rows, pieces)) if rows else []

    def values(self, side: str, rows: Sequence[Row]) -> list[NDArray[np.float32]]:
        """An encoder's vectors, a reranker's scores, as before they are stored."""
        columns = [list(column) for column in zip(*rows, strict=True)]
        if side == "pair":
            scorer = load_scorer(self.model, threads=self.threads)
            query, *passages = (
                self.pieces(column, "passage" if n else "query") for n, column in enumerate(columns)
            )
            return list(scorer.score(query, passages)[:, None])
        flat, offsets = tokenized(self.tokenizer, self.model, columns[0], side)
        return list(self._encoder(side).encode(flat, offsets, side=side))

    def _encoder(self, side: str) -> Encoder:
        """The encoder of both sides, or the table of one."""
        key = side if self.model.encoder.by_table(side) else ""
        if key not in self._encoders:
            self._encoders[key] = load_encoder(self.model, side=side, threads=self.threads)
        return self._encoders[key]


class Library:
    """The folder as sentence-transformers opens it."""

    max_terms: int | None = None
    """The words of a text whose weights a sparse encoder keeps."""

    def __init__(self, model: ModelFolder) -> None:
        """Open it, without code or pickles of the folder."""
        import sentence_transformers as library

        own = model.conventions
        name = "CrossEncoder"
        if isinstance(own, Conventions):
            name = "SparseEncoder" if own.is_sparse else "SentenceTransformer"
        weights = {"dtype": torch.float32, "use_safetensors": True}
        self.opened = getattr(library, name)(
            str(model.folder),
            device="cpu",
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs=weights,
        ).eval()
        if name == "SparseEncoder":
            self.max_terms = self.opened.max_active_dims
            self.opened.max_active_dims = None  # all weights are compared
        self.tokenizer = getattr(self.opened, "tokenizer", None)

    def other_settings(self, own: AnyConventions) -> str:
        """The difference of a setting that no value tells; empty if there is none."""
        terms = own.max_terms if isinstance(own, Conventions) else None
        if terms == self.max_terms:
            return ""
        return f"it keeps {self.max_terms or 'all'} words of a text, raypipe {terms or 'all'}"

    def inputs(self, side: str, rows: Sequence[Row]) -> list[Input]:
        """The inputs that the library makes: the call ends where the model would begin."""
        handle = self.opened[0].register_forward_pre_hook(_end_with_features)
        try:
            return [self._input(side, row) for row in rows]
        finally:
            handle.remove()

    def _input(self, side: str, row: Row) -> Input:
        try:
            self.values(side, [row], 1)
        except _Features as features:
            return features.input
        raise AssertionError("the library computes without its first module")

    def values(self, side: str, rows: Sequence[Row], batch: int) -> list[NDArray[np.float32]]:
        """The values that sentence-transformers computes of each row."""
        more: dict[str, Any] = {"batch_size": batch, "show_progress_bar": False}
        if side == "pair":
            return list(self.opened.predict([tuple(row) for row in rows], **more)[:, None])
        if type(self.opened).__name__ == "SparseEncoder":
            more |= {"convert_to_sparse_tensor": False}
        encode = self.opened.encode_query if side == "query" else self.opened.encode_document
        vectors = encode([text for (text,) in rows], convert_to_tensor=True, **more)
        return list(vectors.float().numpy())

    def ours(
        self, packed: PackedModel, side: str, rows: Sequence[Row]
    ) -> list[NDArray[np.float32]]:
        """Vectors or scores, as before they are stored."""
        return packed.values(side, rows)


class _Features(Exception):  # noqa: N818
    """Ends a call of the library with the features that it made of one text or pair."""

    def __init__(self, features: Mapping[str, Any]) -> None:
        super().__init__("features")
        ids = features["input_ids"][0]
        mask = features.get("attention_mask", torch.ones_like(ids)[None])[0].bool()
        segments = features.get("token_type_ids", torch.zeros_like(ids)[None])[0]
        self.input: Input = (ids[mask].tolist(), segments[mask].tolist())


def _end_with_features(module: Any, given: tuple[Any, ...]) -> None:
    raise _Features(given[0])


class Bare:
    """The weights as transformers opens them, for the inputs that the settings build."""

    def __init__(self, packed: PackedModel) -> None:
        """Open tokenizer and weights, without code or pickles of the folder."""
        import transformers

        self._packed, model = packed, packed.model
        own, folder = model.conventions, str(model.folder)
        body = {key: value for key, value in model.config().items() if key != "model_type"}
        kind = model.config().get("model_type", UNSTATED)
        config = transformers.AutoConfig.for_model(kind, **body)
        given: dict[str, Any] = {"config": config, "local_files_only": True}
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **given)
        opens = transformers.AutoModelForMaskedLM if own.is_sparse else transformers.AutoModel
        if isinstance(own, PairConventions):
            opens = transformers.AutoModelForSequenceClassification
            config.num_labels = units_of(own)
        given |= {"dtype": torch.float32, "use_safetensors": True}
        with TemporaryDirectory(prefix="raypipe-proof-") as scratch:
            opened = opens.from_pretrained(renamed(model.folder, Path(scratch)), **given)
        if isinstance(own, PairConventions) and own.three_segments and config.type_vocab_size < 3:
            place, _, weight = model.family.files.SEGMENTS.rpartition(".")  # transformers makes two
            table = opened.base_model.get_submodule(place)
            widened = with_third_segment(getattr(table, weight).detach(), own.segment_row or "zero")
            setattr(table, weight, torch.nn.Parameter(widened))
        if model.adapter is not None:
            from peft import PeftModel

            opened = PeftModel.from_pretrained(opened, str(model.adapter))
        self._model = opened.eval()

    def other_settings(self, own: AnyConventions) -> str:
        """Empty: transformers has none."""
        return ""

    def inputs(self, side: str, rows: Sequence[Row]) -> list[Input]:
        """The inputs that the settings build of the pieces of transformers' own tokenizer."""
        return self._packed.inputs(side, rows, self._pieces)

    def _pieces(self, texts: list[str], side: str) -> TextSlice:
        prefix, most = self._packed.model.conventions.prefix(side), self._packed.model.max_pieces
        pieces = [
            self.tokenizer(prefix + text, add_special_tokens=False)["input_ids"][:most]
            for text in texts
        ]
        counts = np.array([len(ids) for ids in pieces], np.int64)
        flat = np.array([number for ids in pieces for number in ids], np.uint32)
        return TextSlice(flat, np.cumsum(counts) - counts, counts)

    @torch.inference_mode()
    def values(self, side: str, rows: Sequence[Row], batch: int) -> list[NDArray[np.float32]]:
        """Hidden states of an encoder, word weights of a sparse one, or a reranker's score."""
        return [self._value(*given) for given in self.inputs(side, rows)]

    def ours(
        self, packed: PackedModel, side: str, rows: Sequence[Row]
    ) -> list[NDArray[np.float32]]:
        """Hidden states of an encoder, else vectors or scores."""
        own = packed.model.conventions
        dense = isinstance(own, Conventions) and not own.is_sparse
        return hidden_states(packed, side, rows) if dense else packed.values(side, rows)

    def _value(self, ids: list[int], segments: list[int]) -> NDArray[np.float32]:
        own = self._packed.model.conventions
        given = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids)).long()}
        if self._packed.model.family.files.has_segments:
            given["token_type_ids"] = torch.tensor([segments])
        output = self._model(**given)
        if not isinstance(own, Conventions):
            logits = output.logits.double().numpy()
            return np.asarray(scores_of(logits, self._packed.model.reranker), np.float32)
        if not own.is_sparse:
            states: NDArray[np.float32] = output.last_hidden_state[0].numpy().reshape(-1)
            return states
        weights = torch.log1p(torch.relu(output.logits)).amax(1)[0]
        weights = torch.log1p(weights) if own.pooling == SPLADE_LOG else weights
        return np.asarray(weights.numpy())


def renamed(folder: Path, scratch: Path) -> Path:
    """The folder itself, or one with its weights under the names that transformers reads."""
    with safe_open(folder / WEIGHTS, framework="pt") as opened:
        plain = plain_names(opened.keys())
        if all(name == each for name, each in plain.items()):
            return folder
        tensors = {each: opened.get_tensor(name) for name, each in plain.items()}
    save_file(tensors, scratch / WEIGHTS, metadata={"format": "pt"})
    return scratch


def separate(made: Inputs) -> list[Input]:
    """Token ids and segments of each input."""
    edges = np.cumsum(made.lengths)[:-1]
    both = zip(np.split(made.ids, edges), np.split(made.segments, edges), strict=True)
    return [(ids.tolist(), segments.tolist()) for ids, segments in both]


@torch.inference_mode()
def hidden_states(packed: PackedModel, side: str, rows: Sequence[Row]) -> list[NDArray[np.float32]]:
    """A family's last hidden states of each input, flat."""
    model, made = packed.model, packed.made(side, rows)
    body = model.family.read(load_weights(model), model.config())
    values = []
    edges = np.cumsum(made.lengths)[:-1]
    parts = (np.split(part, edges) for part in (made.ids, made.positions, made.segments))
    for columns in zip(*parts, strict=True):
        ids, positions, segments = map(torch.from_numpy, columns)
        groups = groups_of(np.array([len(ids)]))
        states = model.family.forward(body, ids, positions, segments, groups, attend_by_length)
        values.append(states.numpy().reshape(-1))
    return values


def prove(subject: Subject, threads: int) -> dict[str, Any]:
    """The finding about one model: `problem`, empty if it is proved, and what was compared."""
    began, model = time.monotonic(), subject.model
    finding: dict[str, Any] = {"inputs": 0, "values": 0, "largest": 0.0, "problem": ""}
    finding["characters"] = 0
    try:
        packed = PackedModel(model, threads)
        pair = isinstance(model.conventions, PairConventions)
        whole = model.adapter is None  # an adapter brings a head that its base lacks
        with every_weight(model.folder, head=pair) if whole else nullcontext():
            reference: ReferenceModel = Library(model) if subject.own else Bare(packed)
        finding["problem"] = reference.other_settings(model.conventions)
        if not finding["problem"]:
            finding["problem"] = _of_rare_parts(finding, packed, reference)
        for cases in cases_of(packed, added_tokens(reference), own=subject.own):
            if not finding["problem"]:
                compare_inputs(finding, packed, reference, cases)
            if not finding["problem"]:
                compare_values(finding, packed, reference, cases)
    except NoValueError as error:
        finding |= {"problem": first_line(error), "refused": True}
    except RaypipeError as error:
        finding["problem"] = first_line(error)
    except Exception as error:  # of many kinds: whatever the library raises over a folder
        finding["problem"] = f"it cannot open or compute it: {why_not_opened(model.folder, error)}"
        finding["refused"] = True
    return finding | {"seconds": time.monotonic() - began}


class Cases(NamedTuple):
    """The inputs of one side, query, passage or pair."""

    side: str
    short: Sequence[Row]
    """Of which values are compared, in one batch."""
    full: Sequence[Row]
    """The same one by one."""
    others: Sequence[Row]
    """Of which only the inputs are compared."""

    def with_full(self, number: int) -> Cases:
        """The same with values of fewer full inputs."""
        return self._replace(full=self.full[:number], others=[*self.others, *self.full[number:]])


def added_tokens(reference: ReferenceModel) -> list[str]:
    """The tokens that the library looks for in a text before it is cut."""
    if reference.tokenizer is None:
        return []
    return [str(token) for token in reference.tokenizer.added_tokens_decoder.values()]


def cases_of(packed: PackedModel, added: Sequence[str], *, own: bool) -> list[Cases]:
    """All inputs that are compared; `own` as in Subject: no library has a bare folder's table."""
    tokenizer, settings = packed.tokenizer, packed.model.conventions
    if isinstance(settings, Conventions):
        all_cases = []
        for side in SIDES:
            texts = texts_of(tokenizer, settings.limit(side), added)
            cases = Cases(side, *([(text,) for text in part] for part in texts))
            if settings.by_table(side) and not own:
                cases = Cases(side, (), (), [*cases.short, *cases.full, *cases.others])
            elif side == "query" and settings.query_limit == settings.passage_limit:
                cases = cases.with_full(0)  # passages have one
            all_cases.append(cases)
        return all_cases
    pair = packed.model.reranker
    room = pair.total_limit - packed.layouts["pair"].num_specials
    of_query = pair.query_limit or room // 2
    of_passage = pair.passage_limit or (room - of_query) // pair.num_passages
    query, passage = (texts_of(tokenizer, limit, added) for limit in (of_query, of_passage))
    cases = Cases("pair", *pairs_of(query, passage, pair.num_passages))
    return [cases if pair.total_limit <= COSTLY_TOKENS else cases.with_full(1)]


def compare_inputs(
    finding: dict[str, Any], packed: PackedModel, reference: ReferenceModel, cases: Cases
) -> None:
    """Add to the finding how many inputs are equal, and the first that differs.

    Raises:
        NoValueError: the library reads a word piece without an embedding.
    """
    num_rows = packed.model.config()["vocab_size"]
    side, rows = cases.side, [*cases.short, *cases.full, *cases.others]
    both = zip(rows, packed.inputs(side, rows), reference.inputs(side, rows), strict=True)
    has_segments = packed.model.family.files.has_segments
    for row, (ids, segments), (own_ids, own_segments) in both:
        finding["inputs"] += 1
        if max(own_ids, default=0) >= num_rows:
            raise NoValueError(
                f"of {_shown(side, row)} it reads word piece {max(own_ids)}, where the model has "
                f"embeddings of 0 to {num_rows - 1}: its tokenizer_config.json adds a token that "
                "tokenizer.json and the weights lack; take it out, or resize the embeddings"
            )
        if ids != own_ids:
            finding["problem"] = f"of {_shown(side, row)} it reads {_tokens(packed, own_ids, ids)}"
            return
        if has_segments and segments != own_segments:
            own, made = (" and ".join(map(str, sorted({*s}))) for s in (own_segments, segments))
            finding["problem"] = f"of {_shown(side, row)} it reads segments {own}, raypipe {made}"
            return


def compare_values(
    finding: dict[str, Any], packed: PackedModel, reference: ReferenceModel, cases: Cases
) -> None:
    """Add to the finding the largest difference of values, and the first beyond the tolerance.

    Short inputs are given to the library as one batch, as its users do.
    """
    side, short, full, _ = cases
    rows = [*short, *full]
    if not rows:
        return
    settings = packed.model.conventions
    # Padding takes the weight of a table from a padding token that stands in a text.
    alone = isinstance(settings, Conventions) and settings.by_table(side)
    batch = 1 if alone else len(short)
    own = [*reference.values(side, short, batch), *reference.values(side, full, 1)]
    try:
        made = reference.ours(packed, side, rows)
    except RowsFailed as failed:
        first = failed.rows[0]
        _refuse_no_value(side, rows[first], own[first])
        finding["problem"] = f"of {_shown(side, rows[first])} it makes finite values, raypipe none"
        return
    for row, ours, theirs in zip(rows, made, own, strict=True):
        finding["values"] += 1
        if ours.shape != theirs.shape:
            size = f"{theirs.size} values, raypipe {ours.size}"
            finding["problem"] = f"of {_shown(side, row)} it makes {size}"
            return
        difference = np.abs(ours.astype(np.float64) - theirs)
        largest = float(np.nan_to_num(difference, nan=np.inf).max(initial=0.0))
        finding["largest"] = max(finding["largest"], min(largest, 1e300))  # JSON has no infinity
        if not np.isfinite(ours).all():
            _refuse_no_value(side, row, theirs)
        place = differing(ours, theirs)
        if place is not None:
            values = f"{theirs.flat[place]:.6g}, raypipe {ours.flat[place]:.6g}"
            finding["problem"] = f"of {_shown(side, row)} it makes {values}"
            return


def _refuse_no_value(side: str, row: Row, theirs: NDArray[np.float32]) -> None:
    """Returns nothing if the library's value is finite, where raypipe's is not.

    Raises:
        NoValueError: it is not.
    """
    if not np.isfinite(theirs).all():
        raise NoValueError(
            f"it makes values that are not finite of {_shown(side, row)}, as raypipe does: the "
            "weights hold NaN or infinity, or grow to it; take those of an earlier step"
        )


def differing(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> int | None:
    """The place of the value furthest beyond its tolerance, as NaN is; None if there is none."""
    difference = np.abs(ours.astype(np.float64) - theirs)
    with np.errstate(invalid="ignore"):  # of two infinite values
        beyond = difference / np.maximum(TOLERANCE, RELATIVE * np.abs(theirs))
    beyond = np.nan_to_num(beyond.reshape(-1), nan=np.inf)
    return int(np.argmax(beyond)) if (beyond > 1).any() else None


def _shown(side: str, row: Row) -> str:
    return f"the {side} {' with '.join(map(shown, row))}"


def _of_rare_parts(finding: dict[str, Any], packed: PackedModel, reference: ReferenceModel) -> str:
    """The first difference over a rare character; adds how many are equal to the finding.

    A library without a tokenizer is asked for none.
    """
    parts = [] if reference.tokenizer is None else rare_parts(packed.tokenizer)
    for text, own, made in rare_differences(packed.tokenizer, reference.tokenizer, parts):
        return f"of the text {shown(text)} it reads {_tokens(packed, own, made)}"
    finding["characters"] = len(parts)
    return ""


def _tokens(packed: PackedModel, own: list[int], made: list[int]) -> str:
    """Both inputs from their first difference on."""
    same = next((i for i, (a, b) in enumerate(zip(own, made, strict=False)) if a != b), None)
    start = min(len(own), len(made)) if same is None else same
    both = []
    for ids in (own, made):
        part = ids[start : start + SHOWN_TOKENS]
        both.append(" ".join(str(packed.tokenizer.id_to_token(n)) for n in part) or "nothing")
    return f"{both[0]} from token {start} on, raypipe {both[1]}"


def main() -> int:
    """Write the findings; what the libraries print goes to stderr."""
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    subjects: list[Subject] = pickle.load(sys.stdin.buffer)  # of this process's parent
    import sentence_transformers  # noqa: F401 - takes ten seconds, which are no proof's

    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)
    json.dump([prove(subject, threads) for subject in subjects], results)
    results.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
