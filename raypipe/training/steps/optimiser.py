"""Adam with decoupled weight decay, and the learning rate, as in BERT's own code or in torch."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def learning_rate(
    step: int, *, peak: float, warmup: int, total: int, decay: str = "linear"
) -> float:
    """The rate of a step, counted from 0.

    It rises linearly from 0 over `warmup` steps. Then `linear` falls from the peak to 0 at `total`,
    as in transformers; `linear-from-start` is the line from the peak at step 0, as in BERT's own
    code (2.5% lower after 10k of 400k steps); `constant` keeps the peak.
    """
    if step < warmup:
        return peak * step / warmup
    if decay == "constant":
        return peak
    start = warmup if decay == "linear" else 0
    return peak * max(0.0, (total - step) / max(1, total - start))


def decays(name: str) -> bool:
    """Whether a weight of that name decays; biases and LayerNorm do not (Devlin et al. 2019)."""
    return not name.endswith(".bias") and "LayerNorm" not in name


def clip_(gradients: Sequence[Tensor], limit: float) -> float:
    """The norm of all gradients together; scales them down if it exceeds the limit."""
    norms = torch._foreach_norm(list(gradients))
    norm = torch.linalg.vector_norm(torch.stack([n.float() for n in norms]))
    if limit > 0:
        torch._foreach_mul_(list(gradients), torch.clamp(limit / (norm + 1e-6), max=1.0))
    return float(norm)


class Adam:
    """Adam with decoupled weight decay over named weights.

    Source: Loshchilov & Hutter 2019, Algorithm 2. `bias_correction=False` is BERT's own optimiser
    (eps 1e-6), True is torch.optim.AdamW.
    """

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        *,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.01,
        bias_correction: bool = False,
    ) -> None:
        """The moments start at zero."""
        self._names = list(weights)
        self._weights = list(weights.values())
        self._betas, self._eps = betas, eps
        self._decay = [weight_decay if decays(name) else 0.0 for name in self._names]
        self._bias_correction = bias_correction
        self._first = [torch.zeros_like(w, dtype=torch.float32) for w in self._weights]
        self._second = [torch.zeros_like(w, dtype=torch.float32) for w in self._weights]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor], *, rate: float, number: int) -> None:
        """Update the weights in place; `number` counts updates from 1."""
        beta1, beta2 = self._betas
        grads = list(gradients)
        torch._foreach_mul_(self._first, beta1)
        torch._foreach_add_(self._first, grads, alpha=1 - beta1)
        torch._foreach_mul_(self._second, beta2)
        torch._foreach_addcmul_(self._second, grads, grads, 1 - beta2)
        scale1 = 1 - beta1**number if self._bias_correction else 1.0
        scale2 = 1 - beta2**number if self._bias_correction else 1.0
        roots = torch._foreach_sqrt(self._second)
        torch._foreach_div_(roots, scale2**0.5)
        torch._foreach_add_(roots, self._eps)
        torch._foreach_mul_(self._weights, [1 - rate * decay for decay in self._decay])
        torch._foreach_addcdiv_(self._weights, self._first, roots, -rate / scale1)

    def state(self) -> dict[str, Tensor]:
        """Both moments by name, `first.NAME` and `second.NAME`."""
        first = {f"first.{n}": t for n, t in zip(self._names, self._first, strict=True)}
        second = {f"second.{n}": t for n, t in zip(self._names, self._second, strict=True)}
        return first | second

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore the moments that `state` returned."""
        for name, own in self.state().items():
            own.copy_(state[name])
