"""Synthesizers with a risk in place of epsilon."""

import numpy as np
import pandas as pd
import pytest

from dpassay import synth
from dpassay.errors import InvalidArgument
from dpassay.privacy import Advantage, AttackRate

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"a": RNG.integers(0, 3, 300), "b": RNG.integers(0, 4, 300)})
SCHEMA = synth.Schema({"a": range(3), "b": range(4)})


@pytest.mark.parametrize(
    ("method", "options", "risk"),
    [
        (synth.ProductMixture, {}, AttackRate(fpr=0.05, tpr=0.2)),
        (synth.ProductMixture, {"reader_share": 0.2}, Advantage(0.2)),
        (synth.MWEM, {"rounds": 2}, Advantage(0.2)),
    ],
)
def test_fits_keep_a_risk(method, options, risk):
    model = method(SCHEMA, risk=risk, rng=0, **options).fit(TABLE)
    assert risk.goal * (1 - 2e-3) <= risk.of(model.privacy_) <= risk.goal
    assert model.privacy_.epsilon(model.budget_.delta) <= model.budget_.epsilon * (1 + 1e-9)


def test_what_will_be_stated():
    planned = synth.ProductMixture(SCHEMA, risk=Advantage(0.2)).state_privacy(300)
    fitted = synth.fit(TABLE, schema=SCHEMA, risk=Advantage(0.2), rng=0)
    assert planned.delta(0.0) == fitted.privacy_.delta(0.0)


def test_refused():
    with pytest.raises(InvalidArgument, match="only one can be met"):
        synth.fit(TABLE, schema=SCHEMA, epsilon=2.0, risk=Advantage(0.2))
    with pytest.raises(InvalidArgument, match="goes with a declared schema"):
        synth.fit(TABLE, domain_epsilon=0.1, risk=Advantage(0.2))
