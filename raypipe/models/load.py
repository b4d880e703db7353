"""Opens a model where it is computed: by raypipe's own passes, or by sentence-transformers."""

from functools import partial

from raypipe.errors import InputError
from raypipe.models.encoder import Encoder, QueryTable
from raypipe.models.folder.files import longest_input
from raypipe.models.folder.model_folder import ModelFolder, layouts_of, load_weights, misfits
from raypipe.models.gpu.opening import FixedSettings, Work, placed
from raypipe.models.gpu.passes import units, vectors
from raypipe.models.pooling import load_finishing
from raypipe.models.scorer import Scorer
from raypipe.models.tensors import with_third_segment


def load_encoder(
    model: ModelFolder,
    *,
    side: str | None = None,
    device: str = "cpu",
    threads: int = 1,
    budget_tokens: int | None = None,
    fixed: FixedSettings | None = None,
) -> Encoder:
    """The model on a device, in its precision, as raypipe or sentence-transformers computes it.

    On a CPU it computes on one thread if rows would affect each other; see `settle`.

    Args:
        model: the folder.
        side: query or passage, if nothing else is to be encoded: a table needs no model.
        device: cpu or cuda.
        threads: the largest number of threads.
        budget_tokens: tokens in one forward pass; up to this number of rows are tested together.
        fixed: how passes of fixed shape are computed; None means by default on CUDA, and on a CPU
            that the shape is that of each batch.

    Raises:
        InputError: another architecture, missing tensors, a tokenizer without special tokens, or
            limits beyond the model's positions or segments.
    """
    if model.by_library:
        from raypipe.models.library_forward import LibraryEncoder

        assert model.encoder
        return LibraryEncoder(model, device=device, threads=threads, budget_tokens=budget_tokens)
    if side is not None and model.encoder.by_table(side):
        return QueryTable(model)
    weights = load_weights(model)
    layouts = layouts_of(model)
    if problems := misfits(model, layouts):
        raise InputError(problems)
    body = model.family.read(weights, model.config()).to(device, model.precision)
    finishing = load_finishing(model, weights).to(device)
    finish = partial(vectors, finishing=finishing)
    engine, place = placed(
        model,
        body,
        Work(layouts["passage"], longest_input(model.encoder, layouts), finish, firsts=False),
        *finishing.linears,
        device=device,
        threads=threads,
        budget_tokens=budget_tokens,
        fixed=fixed,
    )
    return Encoder(model, body, layouts, place, finishing, engine)


def load_scorer(
    model: ModelFolder,
    *,
    device: str = "cpu",
    threads: int = 1,
    budget_tokens: int | None = None,
    fixed: FixedSettings | None = None,
) -> Scorer:
    """The model on a device, in its precision, as raypipe or sentence-transformers computes it.

    On a CPU it computes on one thread if rows would affect each other; see `settle`.

    Args:
        model: the folder.
        device: cpu or cuda.
        threads: the largest number of threads.
        budget_tokens: tokens in one forward pass; up to this number of rows are tested together.
        fixed: as in `load_encoder`.

    Raises:
        InputError: another architecture, no head, missing tensors, a tokenizer without special
            tokens, limits beyond the model's positions, or no choice of the third segment.
    """
    conventions = model.reranker
    if model.by_library:
        from raypipe.models.library_forward import LibraryScorer

        return LibraryScorer(model, device=device, threads=threads, budget_tokens=budget_tokens)
    weights = load_weights(model)
    if problems := misfits(model):
        raise InputError(problems)
    if conventions.three_segments:
        name = model.family.files.canonical_names(weights)[model.family.files.SEGMENTS]
        table = with_third_segment(weights[name], conventions.segment_row)
        weights = {**weights, name: table}
    body = model.family.read(weights, model.config()).to(device, model.precision)
    head = model.family.head(weights, model.config()).to(device)
    layouts = layouts_of(model)
    engine, place = placed(
        model,
        body,
        Work(
            layouts["pair"],
            conventions.total_limit,
            partial(units, head=head),
            firsts=head.pooling == "cls",
        ),
        *head.linears,
        device=device,
        threads=threads,
        budget_tokens=budget_tokens,
        fixed=fixed,
    )
    return Scorer(model, body, head, layouts, place, engine)
