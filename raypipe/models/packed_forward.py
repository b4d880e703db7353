"""Computes the inputs of a packed model in batches, each row free of its neighbours."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from raypipe.models.family import Family
from raypipe.models.gpu.passes import FixedEngine
from raypipe.models.machine.device import Buffers, Place, parts_that_fit
from raypipe.models.machine.precision import set_products
from raypipe.models.packed import (
    Body,
    Groups,
    Product,
    attend_by_length,
    first_tokens,
    groups_of,
    linear,
)
from raypipe.text.batches import batches
from raypipe.text.inputs import Layout, TextSlice, make_inputs, taken

Beat = Callable[[Sequence[int]], None]
"""Called with the rows of each batch before it is computed."""


class PackedForward:
    """Weights on a device, and their passes over inputs."""

    def __init__(
        self,
        family: Family,
        body: Body,
        place: Place,
        finish: Callable[[Tensor, Groups], Tensor],
        engine: FixedEngine | None = None,
        *,
        firsts: bool = False,
    ) -> None:
        """Passes of fixed shape by the engine; without one each batch has its own.

        `finish` makes the results, fp32 [B, dim], of the last hidden states; with `firsts` they are
        those of each input's first token alone.
        """
        self.place, self.engine = place, engine
        self._family, self._body, self._finish, self._firsts = family, body, finish, firsts
        self._product: Product = Buffers() if place.device == "cpu" else linear

    def results(
        self,
        texts: Sequence[TextSlice],
        layout: Layout,
        budget_tokens: int | None,
        beat: Beat,
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """(rows, their results, fp32 [B, dim]) of all inputs, one text of each in every slice."""
        budget = self.place.budget(budget_tokens)
        if self.engine is not None:
            yield from self.engine.results(texts, layout, budget_tokens=budget, beat=beat)
            return
        for rows in batches(layout.lengths([text.counts for text in texts]), budget_tokens=budget):
            beat(rows.tolist())
            for part in parts_that_fit(rows):
                with part:
                    yield part.rows, self._pass([taken(text, part.rows) for text in texts], layout)

    @torch.inference_mode()
    def _pass(self, texts: Sequence[TextSlice], layout: Layout) -> NDArray[np.float32]:
        set_products(self.place.precision)
        inputs, device = make_inputs(texts, layout), self.place.device
        groups = groups_of(inputs.lengths)
        ids, positions, segments = (
            torch.from_numpy(part).to(device)
            for part in (inputs.ids, inputs.positions, inputs.segments)
        )
        states = self._family.forward(
            self._body,
            ids,
            positions,
            layout.segments[0] if len(texts) == 1 else segments,
            groups,
            attend_by_length,
            wanted=first_tokens(groups, device) if self._firsts else None,
            product=self._product,
        )
        made: NDArray[np.float32] = self._finish(states, groups).float().cpu().numpy()
        return made
