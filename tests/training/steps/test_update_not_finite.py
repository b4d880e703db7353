import math

import pytest

from raypipe.errors import InputError
from raypipe.training.steps import update


@pytest.mark.parametrize(("loss", "norm"), [(math.nan, 1.0), (1.0, math.inf), (-math.inf, 1.0)])
def test_a_loss_or_norm_that_is_not_finite_ends_the_training(loss, norm):
    update._check(0, 1.0, 1.0, 0.1)
    with pytest.raises(InputError, match=r"^step 8: the loss is .*\(it is 0\.1\)"):
        update._check(7, loss, norm, 0.1)
