"""Negatives that a training searches for itself: their rules, and the rounds between searches.

A round is a training of its own, which becomes a phase of the recipe.
"""

from collections.abc import Iterator

from raypipe.config.training import Loss, Negatives, Training, steps_of
from raypipe.config.yaml import Problem

LAST = "last"
"""The model that a training or phase begins from, where a key names a phase."""
ROUND = "round"
"""The rounds of a recipe without phases are round-1, round-2 and so on."""


def steps_between_searches(recipe: Training) -> int | None:
    """After how many steps a training searches again for its negatives; None means never."""
    mines = [each.negatives.mine for each in recipe.train.values() if each.negatives is not None]
    return next((mine.every for mine in mines if mine is not None and mine.every), None)


def rounds_of(name: str, whole: Training, *, is_phase: bool) -> list[tuple[str, Training]]:
    """The rounds of a training, (name, training) each; one if it never searches again.

    The last one of a phase has the phase's name. Each takes examples in another order, so that no
    round learns from the same first ones. What grows over a penalty's warm-up has grown after the
    first; an adapter's start is in the model that the first one leaves.
    """
    every = steps_between_searches(whole)
    if every is None:
        return [(name, whole)]
    once = {
        key: each.model_copy(update={"negatives": _searched_once(each.negatives)})
        for key, each in whole.train.items()
    }
    rounds = list[tuple[str, Training]]()
    number = steps_of(whole) // every
    for place in range(number):
        update = {"steps": every, "seed": whole.seed + place, "train": once}
        if place:
            adapter = whole.model.adapter and whole.model.adapter.model_copy(update={"start": None})
            update["loss"] = _grown(whole.loss)
            update["model"] = whole.model.model_copy(update={"adapter": adapter})
        is_last = is_phase and place == number - 1
        own = name if is_last else f"{name}-{place + 1}"
        rounds.append((own, whole.model_copy(update=update)))
    return rounds


def _grown(loss: Loss) -> Loss:
    """The same with the whole weight of each penalty from the first step on."""
    penalties = {"flops": loss.flops, "l1": loss.l1}
    grown = {n: p.model_copy(update={"warmup": 0}) for n, p in penalties.items() if p is not None}
    return loss.model_copy(update=grown)


def _searched_once(negatives: Negatives | None) -> Negatives | None:
    if negatives is None or negatives.mine is None:
        return negatives
    mine = negatives.mine.model_copy(update={"every": None})
    return negatives.model_copy(update={"mine": mine})


def mining_problems(recipe: Training, kind: str | None) -> Iterator[Problem]:
    """A problem for every broken rule about runs that the training makes."""
    lengths = set[int]()
    for name, each in recipe.train.items():
        if each.negatives is None:
            continue
        mine, key = each.negatives.mine, ("train", name, "negatives")
        if not each.negatives.runs and mine is None:
            yield Problem((*key, "runs"), "missing; give run files, mine, or both")
        if mine is not None and each.documents is not None:
            yield Problem((*key, "mine"), "finds passages, and the set has documents; give runs")
        if mine is None or mine.every is None:
            continue
        lengths.add(mine.every)
        every = (*key, "mine", "every")
        if mine.with_ != LAST:
            text = (
                f"the model of phase {mine.with_} does not change; remove it, or write with: last"
            )
            yield Problem(every, text)
        if kind not in (None, "encoder"):
            yield Problem(every, f"only for an encoder, which searches; a {kind} model does not")
        if recipe.steps is None or recipe.steps % mine.every:
            found = "epochs" if recipe.steps is None else f"{recipe.steps:,}"
            text = f"expected steps that are a multiple of it, {mine.every:,}; found {found}"
            yield Problem(every, text)
    if len(lengths) > 1:
        text = f"expected one negatives.mine.every in all of them; found {sorted(lengths)}"
        yield Problem(("train",), text)
