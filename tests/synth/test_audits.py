"""Synthesizers under the same attack as anything else: the honest stand, those of less noise fall.

The whole path is played, from a table to answers of the fitted model; the score is the answer that
the one record moves most.
"""

import numpy as np
import pytest

from dpassay import audit
from dpassay.synth import ProductMixture, Schema, Workload
from dpassay.synth.measurements import measure
from dpassay.synth.methods import product_mixture

SCHEMA = Schema({"a": range(2), "b": range(2)})
PAIR = Workload.marginals([("a", "b")])
# Few records, of which one should move the fit by more than where its descent stops (not tested).
TABLE = np.array([[0, 0], [0, 1], [1, 0]] * 6 + [[1, 1]] * 4)
OTHER = np.vstack([TABLE[1:], [[1, 1]]])


def less(share):
    """``measure`` with that share of the noise."""
    return lambda data, columns, sigmas, *rest: measure(
        data, columns, [share * sigma for sigma in sigmas], *rest
    )


@pytest.mark.parametrize(("share", "refuted"), [(1.0, False), (0.65, True)])
def test_mixtures(share, refuted, monkeypatch):
    """One record is replaced; whether one that is added shows as well was not tested."""
    monkeypatch.setattr(product_mixture, "measure", less(share))
    options = {"epsilon": 8.0, "delta": 1e-6, "neighbouring": "replace-one"}
    options |= {"components": 4, "steps": 60, "penalty": 0.02}

    def fitted(data, rng):
        return ProductMixture(SCHEMA, PAIR, rng=rng, **options).fit(data)

    found = audit(
        lambda data, rng: fitted(data, rng).answer(PAIR),
        (OTHER, TABLE),
        claim=fitted(TABLE, 0).privacy_,
        score=lambda answers: answers[3] - answers[0],
        trials=300 if refuted else 100,  # a fit takes 50 ms
        rng=0,
    )
    assert found.refuted == refuted
