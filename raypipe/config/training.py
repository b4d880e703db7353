"""The recipe of a training: which model, on which sets, for how long.

The defaults are those of the papers; the recipes in jobs/configs state the other values with their
sources. A step is one update of the weights.
"""

import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from raypipe.config.fields import (
    OWN,
    AutoOrCount,
    BelowOne,
    Count,
    ExcludedPlace,
    Holds,
    Listed,
    Location,
    Measure,
    ModelPlace,
    Name,
    NotNegative,
    OneOrMore,
    Real,
    SameOrPart,
    Section,
    Seed,
    Source,
    Text,
)
from raypipe.config.parts import CIP, Collection, plain_values
from raypipe.vocabulary import K0, K_MAX, DocumentMethod, LossName


class TrainDocuments(Section):
    """Examples of a set of documents: a passage of a relevant document, one of an irrelevant one.

    Every passage of a relevant document has its own negative, a passage of any irrelevant document
    of its query.
    """

    passages: Annotated[Count, Source(CIP)] = 32
    """Passages of a document that are used, the first ones."""
    best: Annotated[Count | None, Source(CIP, value=5, default=False)] = None
    """Keep only so many passages of each relevant document, those that `scored_by` scores highest,
    each with its negative. None keeps all."""
    scored_by: Name | None = None
    """The earlier phase whose model scores the passages of the relevant documents."""


class DevDocuments(Section):
    """A checkpoint is measured on the documents of the run, by the scores of all their passages."""

    method: Annotated[DocumentMethod, Source(OWN)] = "maxp"
    k: Annotated[Count | None, Source(CIP, value=K_MAX)] = None
    """For k-max-avgp only: the number of passages whose scores are averaged, 4 by default."""


class Mine(Section):
    """A run made by the training itself: an encoder searches the collection, exactly, to the rank
    `last` of the negatives."""

    with_: Annotated[Name, Source(OWN), Field(alias="with")] = "last"
    """Which encoder searches: `last`, the model that the training or phase begins from, or that of
    an earlier phase, by its name."""
    every: Count | None = None
    """Search again with the newest model after every so many steps. Each such round is a phase of
    its own with its own warm-up, and begins from the best checkpoint of the one before. None means
    one search, before the first step."""


class Negatives(Section):
    """Passages used as irrelevant ones, drawn from runs over the training queries. None has the
    text of a passage that is relevant for its query, or for another query of the same text."""

    runs: Annotated[tuple[Location, ...], OneOrMore] = ()
    """Run files; a passage's run and rank are kept with it."""
    mine: Mine | None = None
    """A run that the training makes, instead of files or after them."""
    first: Annotated[Count, Source(OWN)] = 1
    """First of the ranks that they are drawn from."""
    last: Annotated[Count, Source("Nogueira & Cho 2019: the first 1,000 of BM25")] = K0
    """Last of the ranks that they are drawn from."""
    relevant_last: Count | None = None
    """Treat a judged passage as relevant only if one of the runs has it up to this rank, since a
    reranker sees no others. None means all judged ones. Where runs miss most of them, a model that
    learns from all learns that whatever the runs find is irrelevant."""
    per_example: Annotated[Count, Source("one relevant, one not (Nogueira & Cho 2019)")] = 1
    """Number of irrelevant passages in an example."""
    examples: Annotated[Count, Source(OWN)] = 1
    """Number of examples for each relevant passage, each with other negatives."""
    above_teacher: Real | None = None
    """Leave out negatives that the teacher scores higher than the relevant passage's score plus
    this."""


class Pairs(Section):
    """The first candidates of each query, each an example of its own with its label: a batch has as
    few relevant passages as the runs have."""

    runs: Annotated[tuple[Location, ...], OneOrMore, Field(min_length=1)]
    """Run files over the training queries."""
    last: Annotated[Count, Source("Nogueira & Cho 2019: the first ten of BM25, for TREC CAR")] = 10
    """Last of the ranks that are used."""


class FirstStages(Section):
    """The first stages of which a blend learns: each example has z from one of them, drawn."""

    runs: Annotated[tuple[Location, ...], OneOrMore, Field(min_length=1)]
    """Run files over the training queries. z is a passage's score there, min-max over the query's
    list, and 0 if the run lacks the passage."""
    last: Annotated[Count, Source("Nogueira & Cho 2019: the first 1,000 of BM25")] = K0
    """Last rank of such a list: k0 of the pipelines that the model is for."""
    none: Annotated[bool, Source(OWN)] = True
    """Whether z = 0 for all of an example's passages is one of the choices."""


class TrainingSet(Section):
    """Queries with their examples over one collection."""

    collection: Name | None = None
    queries: Location | None = None
    qrels: Location | None = None
    """Without qrels, a set of negatives with a teacher is unlabelled: its lists, drawn from the
    runs, learn from the teacher alone, by mse or kl."""
    min_grade: Annotated[Count, Source(OWN)] = 1
    """The lowest relevant grade. Passages with a lower grade above 0 are neither learnt as relevant
    nor drawn as negatives."""
    negatives: Negatives | None = None
    """With qrels, or with a teacher."""
    blend: FirstStages | None = None
    """With negatives, for loss.blend: where the first stage's scores come from."""
    pairs: Pairs | None = None
    """Instead of negatives, with qrels: for the cross-entropy of a monoBERT model."""
    documents: TrainDocuments | None = None
    """Qrels and runs name documents, and examples are of their passages."""
    triples: Location | None = None
    """Instead of negatives: lines of a query id, a relevant and an irrelevant passage id."""
    texts: Location | None = None
    """Instead of all of these: lines of a query, a relevant and an irrelevant passage, as texts."""
    exclude: ExcludedPlace | None = None
    """Passages that are in no run of the set, given or mined: `own-id`, or a file of queries and
    passages, as in a query set. A query that is a passage itself, by id and text, is never its own
    negative, without this key too."""
    teacher: Annotated[Location, Holds.MODEL] | None = None
    """Source of the teacher's scores: a workspace of `raypipe score`, whose scored candidates are
    used; a run file with a teacher's score in every line (`score --tail drop`); or a monoBERT
    model, included or in a folder, which then scores the one run of the negatives up to `last`, in
    its own blend. Relevant passages and negatives without a score are left out and counted."""
    examples_at_most: Count | None = None
    """Keep the first examples in a seeded order, at most this number, for curves over training
    sizes: smaller sets are subsets of larger ones. Each size is a separate training with its whole
    schedule."""


class DevSet(Section):
    """Queries on which a checkpoint is measured."""

    collection: Name
    queries: Location
    qrels: Location
    run: Location
    """A run whose first candidates are scored and reordered; the others are kept below them."""
    k: Annotated[Count, Source("Nogueira et al. 2019: 1,000 candidates, 50 for duoBERT")] = K0
    """Number of candidates per query: k0 for a monoBERT model or an encoder, k1 for a duoBERT model
    (by SUM)."""
    documents: DevDocuments | None = None
    """Qrels and run name documents; k then counts documents."""
    queries_at_most: Count | None = None
    """Measure on at most this number of queries, the first ones."""


class Guarded(Section):
    """Evaluation queries, which must stay out of the training; dev sets are always guarded."""

    queries: Location
    qrels: Location | None = None
    collection: Name | None = None
    """The collection that holds the qrels' passages."""
    leave_out_passages: Annotated[bool, Source(OWN)] = False
    """Also leave every judged passage out of the negatives. Otherwise, where the training set does
    not use them as relevant, they could only be taught as irrelevant."""


BERT = "BERT's own optimiser (Devlin et al. 2019), as Nogueira & Cho 2019"
PAPERS = "Nogueira & Cho 2019, section 3.2; Zhan et al. 2020, section 4.3"

Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Adapter(Section):
    """Low-rank updates instead of full fine-tuning (Hu et al. 2022)."""

    rank: Annotated[Count, Source("Hu et al. 2022, section 7.2")] = 8
    """Rank of the two matrices whose product is added to a weight."""
    alpha: Annotated[Positive, Source(OWN)] = 16.0
    """The product is multiplied by alpha / rank."""
    start: Annotated[Location, Holds.MODEL] | None = None
    """An adapter of this rank to start from, such as a monoBERT model's for a duoBERT model: a
    folder, general-mono, or for Python's documentation minilm-mono or minilm-duo."""


class TrainedModel(Section):
    """The starting weights and the settings of the trained model."""

    start: ModelPlace
    """A model folder, `minilm` or a hub's `OWNER/NAME`, also with `@REVISION`; for full fine-tuning
    also `general-mono`, or for Python's documentation `minilm-mono` or `minilm-duo`."""
    revision: Text | None = None
    """Of a hub's model: a commit, branch or tag; None means the newest commit, which recipe.yaml
    then names."""
    branch: Text | None = None
    """Written by raypipe: what the commit in `revision` was the newest of."""
    start_saw: Text | None = None
    """What its weights were trained on, in words, where its folder does not say it; tables of every
    model that is trained from it repeat this."""
    preset: Name | None = None
    """The preset with the trained model's settings, including its kind; otherwise these are the
    start's own, from its raypipe.json, its sentence-transformers files or its included adapter."""
    settings: Annotated[dict[str, Any], AfterValidator(plain_values)] | None = None
    """Instead of a preset: every key of a raypipe.json. raypipe writes the start's own here."""
    query_limit: Count | None = None
    """Word pieces of a query. These limits, and segment_row, override the preset's."""
    passage_limit: Count | None = None
    """Word pieces of a passage."""
    total_limit: Count | None = None
    """Tokens of the whole input."""
    segment_row: Literal["zero", "copy"] | None = None
    """A duoBERT model's third segment, if the start has only two rows."""
    head: Annotated[Literal[1, 2], Source("two units, as BERT's own classifier")] = 2
    """Number of output units of a reranker's head."""
    adapter: Adapter | None = None
    """None means that every weight is trained."""
    weights: Annotated[Literal["read", "random"], Source(OWN)] = "read"
    """random: a pre-training from nothing; of `start`, only config.json and the tokenizer are
    read."""
    draw_missing: Annotated[bool, Source(OWN)] = False
    """Draw, by the seed, what a head needs and the start lacks: a reranker's pooler, or a
    pre-training's heads. Otherwise the training is refused and names them. A reranker's classifier
    is always new."""


class Sparsity(Section):
    """The weights of a penalty on a splade model's weights of word pieces."""

    queries: Annotated[NotNegative, Source(OWN)] = 0.0
    """For the weights of queries."""
    passages: Annotated[NotNegative, Source(OWN)] = 0.0
    """For the weights of passages."""
    warmup: Annotated[int, Field(ge=0)]
    """Steps in which both grow from 0 with the square of the step; 0 means that they do not. A
    model that is pressed from the first step may lose every word."""


class Loss(Section):
    """The loss by name; `raypipe.training.losses` has each equation."""

    name: LossName
    margin: Annotated[Positive, Source("CIP at TREC 2021 DL")] = 1.0
    """Of pairwise-hinge."""
    temperature: Annotated[Positive, Source(OWN)] = 1.0
    """The temperature of info-nce and kl."""
    teacher_temperature: Positive | None = None
    """Of margin-mse, mse and kl: what a teacher's scores are divided by, where the model's have
    another scale; an encoder with normalise gives cosines. None means the temperature in kl, else
    1."""
    judgements: Annotated[NotNegative, Source(OWN)] = 0.0
    """The weight of the cross-entropy on the judgements, added to a reranker's margin-mse, mse or
    kl. Training sets without a teacher are then learnt with the cross-entropy alone."""
    teacher_weight: Annotated[NotNegative, Source(OWN)] = 0.0
    """The weight of the kl to the teacher, added to listwise where a training set has one; sets
    without qrels are learnt with it alone."""
    blend: Annotated[NotNegative, Source(OWN)] = 0.0
    """The weight a of the first stage in the score of listwise and its kl, s = a z + f; see `blend`
    of the sets. The trained model keeps it. 0 means none."""
    flops: Sparsity | None = None
    """Of a splade model: the sum over word pieces of the square of their mean weight over all texts
    of a step, which keeps long posting lists few (Formal et al. 2021)."""
    l1: Sparsity | None = None
    """Of a splade model: the mean over all texts of a step of the sum of their weights (of queries:
    Lassance & Clinchant 2022)."""


class Masking(Section):
    """What a pre-training hides and predicts (Devlin et al. 2019, section 3.1)."""

    next_sentence: bool
    """Also predict whether text B follows A. Nogueira et al. 2019 do not say, so a recipe must."""
    share: Annotated[Share, Source("Devlin et al. 2019, section 3.1")] = 0.15
    """The share of an input's word pieces that are predicted: 80% of them become [MASK], 10% a
    random piece, 10% stay."""
    joined: Annotated[bool, Source("128 x 512 tokens a batch (Nogueira et al. 2019)")] = True
    """Whether inputs run on over passages, with [SEP] between them, until they are full; otherwise
    a passage begins a new input."""
    held_out: Annotated[int, Field(ge=0), Source(OWN)] = 0
    """Number of inputs of each training set, drawn by the seed, on which checkpoints are measured
    and never trained."""


class Optimiser(Section):
    """Adam with decoupled weight decay, except on biases and LayerNorm."""

    rate: Annotated[Positive, Source(PAPERS)] = 3e-6
    """The largest learning rate, at the end of the warm-up."""
    warmup: Annotated[int, Field(ge=0), Source(PAPERS)] = 10_000
    """Steps in which the rate rises from 0."""
    decay: Annotated[
        Literal["linear", "linear-from-start", "constant"], Source("transformers' linear schedule")
    ] = "linear"
    """After the warm-up: down to 0 along a line from there, along one that begins at step 0, or not
    at all."""
    weight_decay: Annotated[NotNegative, Source(BERT)] = 0.01
    """Each step takes the rate times this off a weight."""
    beta1: Annotated[BelowOne, Source(BERT)] = 0.9
    beta2: Annotated[BelowOne, Source(BERT)] = 0.999
    eps: Annotated[Positive, Source(BERT)] = 1e-6
    bias_correction: Annotated[bool, Source(BERT)] = False
    """Adam's correction of its first averages; BERT's own optimiser has none."""
    clip: Annotated[NotNegative, Source(BERT)] = 1.0
    """The largest norm of all gradients together; 0 turns clipping off."""
    clip_after: Annotated[Literal["step", "batch"], Source(BERT)] = "step"
    """`batch` clips the sum of the gradients after each batch of a step, as RepBERT's code does."""


class Validate(Section):
    """When checkpoints are measured, by which measure, and when the training ends early."""

    every: Count
    """Steps."""
    measure: Annotated[Measure, Source(OWN)] = "nDCG@10"
    """The measure, averaged over the dev sets; the best checkpoint becomes the trained model."""
    patience: Count | None = None
    """End the training after this number of measurements in a row without a better one."""


class TrainResources(Section):
    """Where and how the training runs.

    Without dropout these values change only the last bits of the weights. With dropout, another
    number of workers or another budget draws other masks; resuming with such a change is noted.
    """

    workers: Annotated[Count, Source(OWN)] = 1
    """Processes that share each step's batches; on GPUs one each."""
    device: Annotated[Literal["auto", "cpu", "cuda"], Source(OWN)] = "auto"
    backend: Annotated[Literal["ray", "inline"], Source(OWN)] = "ray"
    threads: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Threads of each worker."""
    budget_tokens: Annotated[AutoOrCount, Source(OWN)] = "auto"
    """Tokens in one forward pass; auto chooses by the device."""
    precision: Annotated[Literal["fp32", "bf16"], Source(OWN)] = "fp32"
    """Of the matrix products; weights and optimiser stay fp32."""
    recompute: Annotated[bool, Source(OWN)] = False
    """Gradient checkpointing: layers are computed again in the backward pass."""
    max_failures: Annotated[int, Field(ge=0), Source(OWN)] = 3
    """Number of lost workers after which the training ends; it can be resumed."""


class Training(Section):
    """One YAML recipe for `raypipe train`."""

    format: Literal[1]
    name: Name
    model: TrainedModel
    collections: dict[Name, Collection] = {}
    train: Annotated[dict[Name, TrainingSet], Field(min_length=1)]
    dev: dict[Name, DevSet] = {}
    guard: dict[Name, Guarded] = {}
    near_copy: Annotated[SameOrPart, Source(OWN)] = 0.6
    """Training queries at least this similar to a guarded query are dropped, from 0 to 1 by their
    words and these words' rarity; `same` drops only the same text, in any case and punctuation."""
    loss: Loss
    masking: Masking | None = None
    """Only of a pre-training."""
    steps: Count | None = None
    """Updates of the weights."""
    epochs: Positive | None = None
    """Instead of steps: how often each example is taken, at most one batch more."""
    schedule_steps: Count | None = None
    """The step at which a falling rate would reach 0, if the training ends before; None means at
    the last."""
    batch: Count
    """Examples in a batch; each has one relevant and per_example irrelevant passages."""
    accumulation: Annotated[Count, Source(OWN)] = 1
    """Batches per step."""
    optimiser: Optimiser = Optimiser()
    dropout: Annotated[BelowOne, Source(BERT)] = 0.1
    """In the layers and in attention."""
    seed: Annotated[Seed, Source(OWN)] = 0
    """Of the order of examples, their negatives, what is drawn of the weights, and dropout."""
    checkpoint_every: Annotated[Count, Source("CIP at TREC 2021 DL")] = 5_000
    """Steps."""
    validate_: Annotated[Validate | None, Field(alias="validate")] = None
    resources: TrainResources = TrainResources()
    stores: Location | None = None
    """Folder or URI of the stores; None means the workspace's own."""
    overrides: Annotated[tuple[str, ...], Listed] = ()
    """The overrides that this recipe was made with; they are already applied."""

    def with_steps(self, num_examples: int) -> "Training":
        """The recipe with its number of steps: of epochs, so many that every example is taken."""
        if self.epochs is None:
            return self
        steps = math.ceil(self.epochs * num_examples / (self.batch * self.accumulation))
        return self.model_copy(update={"steps": max(1, steps), "epochs": None})


def steps_of(recipe: Training) -> int:
    """The number of steps; that of epochs is known once the examples are (`with_steps`)."""
    assert recipe.steps is not None
    return recipe.steps
