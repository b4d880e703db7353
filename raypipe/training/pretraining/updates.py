"""The updates of a pre-training: masked batches instead of examples."""

from itertools import chain

import torch
from torch import Tensor

from raypipe.errors import InputError
from raypipe.models.folder.conventions import PretrainedConventions
from raypipe.models.folder.opening import open_tokenizer
from raypipe.text.batches import batches
from raypipe.text.inputs import Layouts
from raypipe.training.examples.sampler import Sampler
from raypipe.training.job import Job
from raypipe.training.model.trainee import Trainee
from raypipe.training.model.worker import layouts_for
from raypipe.training.pretraining.batch import Maker, MaskedBatch
from raypipe.training.pretraining.losses import summed_losses
from raypipe.training.pretraining.masking import Rule
from raypipe.training.pretraining.sources import text_sources, trained
from raypipe.training.steps.comm import Comm
from raypipe.training.steps.gradient import Worked, seed_dropout, share_of
from raypipe.training.steps.update import Updates


class PretrainingUpdates(Updates):
    """See Updates; a step's batch has `batch` times `accumulation` inputs."""

    def _open(self) -> None:
        recipe = self._job.recipe
        self._maker = maker_of(self._job)
        num_trained = sum(source.num_trained for source in self._maker.sources)
        self._sampler = Sampler(num_trained, recipe.batch * recipe.accumulation, recipe.seed)

    def _num_parts(self) -> int:
        return 1  # all of a step's inputs are one batch, whose predicted pieces have one mean

    def _backward(self, number: int, part: int) -> Worked:
        chosen = trained(self._maker.sources, self._sampler.batch(number))
        return backward(
            self.trainee,
            self._maker.batch(chosen, number + 1),
            self._comm,
            budget_tokens=self.budget,
            draw=(self._job.recipe.seed, number),
        )


def backward(
    trainee: Trainee,
    batch: MaskedBatch,
    comm: Comm,
    *,
    budget_tokens: int,
    draw: tuple[int, ...],
) -> Worked:
    """Add this worker's share of the batch's loss to the gradients.

    The loss is the mean over the batch's predicted pieces, plus that over its pairs. The sum over
    workers is its gradient; inputs are distributed by length, so that workers have equal work.

    Args:
        trainee: the model; gradients are added to `.grad` of its weights.
        batch: the same on every worker.
        comm: which worker this is.
        budget_tokens: tokens in one forward pass.
        draw: what seeds dropout, together with the worker and the forward pass.
    """
    lengths = batch.inputs.lengths
    num_words, num_inputs = max(1, batch.num_words), len(lengths)
    share = share_of(lengths, comm)
    loss: Tensor = torch.zeros((), device=trainee.device)
    for number, places in enumerate(batches(lengths[share], budget_tokens=budget_tokens)):
        seed_dropout(*draw, comm.rank, number)
        of_words, of_pairs = summed_losses(trainee, batch.part(share[places]))
        part = of_words / num_words
        if of_pairs is not None:
            part = part + of_pairs / num_inputs
        part.backward()  # type: ignore[no-untyped-call]
        loss += part.detach()
    return Worked(loss, int(lengths[share].sum()))


def maker_of(job: Job) -> Maker:
    """What makes the masked inputs of a training.

    Raises:
        InputError: the tokenizer has no [MASK], or a set has too few inputs.
    """
    conventions, masking = job.conventions, job.recipe.masking
    assert isinstance(conventions, PretrainedConventions) and masking is not None
    layouts = layouts_for(job)
    return Maker(
        text_sources(job),
        layouts,
        rule_of(job, layouts, masking.share),
        masking.next_sentence,
        conventions.total_limit,
        job.recipe.seed,
    )


def rule_of(job: Job, layouts: Layouts, share: float) -> Rule:
    """The masking rule with the tokenizer's own ids.

    Raises:
        InputError: the tokenizer has no [MASK].
    """
    tokenizer, mask = open_tokenizer(job.start), job.start.family.pretraining.MASK
    mask_id = tokenizer.token_to_id(mask)
    if mask_id is None:
        raise InputError(f"{job.start.folder}: the tokenizer has no {mask}, which masking needs")
    layout = layouts["pair"]
    special = tuple(sorted({*layout.before, *chain(*layout.behind)}))
    return Rule(share, mask_id, tokenizer.get_vocab_size(), special)
