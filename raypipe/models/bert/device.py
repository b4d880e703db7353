"""Names that `raypipe.driver.upkeep.doctor` imports from here; they are of `models.device`."""

from raypipe.models.device import BUDGET_TOKENS, numerics_class

__all__ = ["BUDGET_TOKENS", "numerics_class"]
