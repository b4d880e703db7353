"""The recipe of a training: which model, on which examples, for how long.

The defaults are those of the papers; the recipes of jobs/configs write out the rest with its
source. A step is one update of the weights.
"""

from typing import Annotated, Literal

from pydantic import Field

from raypipe.config.fields import (
    OWN,
    AutoOrCount,
    Count,
    Listed,
    Location,
    Measure,
    Name,
    NotNegative,
    OneOrMore,
    Real,
    Section,
    Seed,
    Source,
    Text,
    Unit,
)
from raypipe.config.pipeline.parts import Collection
from raypipe.vocabulary import K0, LossName

BERT = "BERT's own optimiser (Devlin et al. 2019), as Nogueira & Cho 2019"
PAPERS = "Nogueira & Cho 2019, section 3.2; Zhan et al. 2020, section 4.3"

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Adapter(Section):
    """Low-rank updates in place of full fine-tuning (Hu et al. 2022)."""

    rank: Annotated[Count, Source("Hu et al. 2022, section 7.2")] = 8
    alpha: Annotated[Positive, Source(OWN)] = 16.0
    start: Location | None = None
    """An adapter of this rank to begin with, such as a mono's for a duo: a folder,
    minilm-mono or minilm-duo."""


class TrainedModel(Section):
    """What the training starts from and what it makes."""

    start: Text
    """A model folder, `minilm`, or of full fine-tuning `minilm-mono` or `minilm-duo`."""
    preset: Name
    """Conventions of the model that comes out; its kind among them."""
    query_limit: Count | None = None
    """These four lie over the preset's."""
    passage_limit: Count | None = None
    total_limit: Count | None = None
    segment_row: Literal["zero", "copy"] | None = None
    head: Annotated[Literal[1, 2], Source("two units, as BERT's own classifier")] = 2
    """Units of a reranker's head."""
    adapter: Adapter | None = None
    """None: every weight is trained."""


class Negatives(Section):
    """Passages that stand for the irrelevant ones, drawn from runs over the training queries."""

    runs: Annotated[tuple[Location, ...], OneOrMore, Field(min_length=1)]
    """Run files; a passage's run and rank are kept with it."""
    first: Annotated[Count, Source(OWN)] = 1
    """The ranks they are drawn from: from this one ..."""
    last: Annotated[Count, Source("Nogueira & Cho 2019: the first 1,000 of BM25")] = K0
    """... to this one."""
    relevant_last: Count | None = None
    """Learn as relevant only what one of the runs has up to this rank, as a reranker meets it; all
    judged ones otherwise. Where runs miss most of them, a model that learns from all learns that
    what the runs find is irrelevant."""
    per_example: Annotated[Count, Source("one relevant, one not (Nogueira & Cho 2019)")] = 1
    examples: Annotated[Count, Source(OWN)] = 1
    """So many examples of each relevant passage, with other negatives."""
    above_teacher: Real | None = None
    """Leave out what the teacher scores higher than the relevant passage's score plus this."""


class TrainingSet(Section):
    """Queries with their examples over one collection."""

    collection: Name | None = None
    queries: Location | None = None
    qrels: Location | None = None
    min_grade: Annotated[Count, Source(OWN)] = 1
    """What counts as relevant; lower grades above 0 are neither learnt as relevant nor drawn as
    negatives."""
    negatives: Negatives | None = None
    """With qrels."""
    triples: Location | None = None
    """Instead of negatives: lines of query id, relevant and irrelevant passage id."""
    texts: Location | None = None
    """Instead of all these: lines of query, relevant and irrelevant passage as texts."""
    teacher: Location | None = None
    """Whose scores teach: a workspace of `raypipe score`, of which the scored candidates count, or
    a run file that has a teacher's score in every line (`score --tail drop`). Relevant passages and
    negatives without a score are left out, counted."""
    examples_at_most: Count | None = None
    """Of a seeded order the first so many, for curves over training sizes: smaller sets are parts
    of larger ones. Each size is a training of its own with its whole schedule."""


class DevSet(Section):
    """Queries on which a checkpoint is measured."""

    collection: Name
    queries: Location
    qrels: Location
    run: Location
    """Its candidates are scored and reordered, the rest stays below."""
    k: Annotated[Count, Source("Nogueira et al. 2019: 1,000 candidates, 50 of a duo")] = K0
    """How many of each query: k0 of a mono and an encoder, k1 of a duo (by SUM)."""
    queries_at_most: Count | None = None
    """Measure on the first so many queries only."""


class Guarded(Section):
    """Evaluation queries that nothing may be trained on; dev sets are guarded unasked."""

    queries: Location
    qrels: Location | None = None
    collection: Name | None = None
    """Where the qrels' passages are."""
    leave_out_passages: Annotated[bool, Source(OWN)] = False
    """Also leave every judged passage out of the negatives: where the training set leaves them
    out of its relevant ones, they would all be taught as irrelevant."""


class Loss(Section):
    """By name; `raypipe.training.steps.losses` has each equation."""

    name: LossName
    margin: Annotated[Positive, Source("CIP at TREC 2021 DL")] = 1.0
    """Of pairwise-hinge."""
    temperature: Annotated[Positive, Source(OWN)] = 1.0
    """Of info-nce and kl."""
    judgements: Annotated[NotNegative, Source(OWN)] = 0.0
    """Of a reranker's margin-mse and kl: the weight of the cross-entropy on the judgements, which
    is added; training sets without a teacher are then learnt by it alone."""


class Optimiser(Section):
    """Adam with decoupled weight decay, not on biases and LayerNorm."""

    rate: Annotated[Positive, Source(PAPERS)] = 3e-6
    warmup: Annotated[int, Field(ge=0), Source(PAPERS)] = 10_000
    decay: Annotated[
        Literal["linear", "linear-from-start", "constant"], Source("transformers' linear schedule")
    ] = "linear"
    weight_decay: Annotated[NotNegative, Source(BERT)] = 0.01
    beta1: Annotated[Unit, Source(BERT)] = 0.9
    beta2: Annotated[Unit, Source(BERT)] = 0.999
    eps: Annotated[Positive, Source(BERT)] = 1e-6
    bias_correction: Annotated[bool, Source(BERT)] = False
    clip: Annotated[NotNegative, Source(BERT)] = 1.0
    """Of the norm of all gradients; 0 clips nothing."""


class Validate(Section):
    """When a checkpoint is measured, by what, and when the training ends early."""

    every: Count
    """Steps."""
    measure: Annotated[Measure, Source(OWN)] = "nDCG@10"
    """Averaged over the dev sets; the best checkpoint is the model that comes out."""
    patience: Count | None = None
    """End after so many measurements without a better one."""


class TrainResources(Section):
    """Where and how. Without dropout the weights depend on it in the last bits alone; with it
    another number of workers or budget draws other masks, and resuming so is noted."""

    workers: Annotated[Count, Source(OWN)] = 1
    device: Annotated[Literal["auto", "cpu", "cuda"], Source(OWN)] = "auto"
    backend: Annotated[Literal["ray", "inline"], Source(OWN)] = "ray"
    threads: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Of each worker."""
    budget_tokens: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Tokens of one forward; auto goes by the device."""
    precision: Annotated[Literal["fp32", "bf16"], Source(OWN)] = "fp32"
    recompute: Annotated[bool, Source(OWN)] = False
    """Gradient checkpointing: layers are computed again in the backward."""
    beside: Annotated[bool, Source(OWN)] = True
    """On Ray, and where it has room for one more worker, checkpoints are measured there while the
    training goes on; otherwise by the workers, between two steps. Changes no measurement."""
    max_failures: Annotated[int, Field(ge=0), Source(OWN)] = 3
    """Deaths of workers after which the training ends; it can be resumed."""


class Training(Section):
    """One YAML recipe for `raypipe train`."""

    format: Literal[1]
    name: Name
    model: TrainedModel
    collections: dict[Name, Collection] = {}
    train: Annotated[dict[Name, TrainingSet], Field(min_length=1)]
    dev: dict[Name, DevSet] = {}
    guard: dict[Name, Guarded] = {}
    loss: Loss
    steps: Count
    batch: Count
    """Examples of a batch; one of a mono has one relevant and per_example irrelevant passages."""
    accumulation: Annotated[Count, Source(OWN)] = 1
    """Batches of a step."""
    optimiser: Optimiser = Optimiser()
    dropout: Annotated[Unit, Source(BERT)] = 0.1
    seed: Annotated[Seed, Source(OWN)] = 0
    checkpoint_every: Annotated[Count, Source("CIP at TREC 2021 DL")] = 5_000
    """Steps."""
    validate_: Annotated[Validate | None, Field(alias="validate")] = None
    resources: TrainResources = TrainResources()
    stores: Location | None = None
    overrides: Annotated[tuple[str, ...], Listed] = ()
