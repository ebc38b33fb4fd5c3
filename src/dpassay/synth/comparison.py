"""How close a synthetic model or table is to the true one. Not private: for the owner's eyes.

These numbers compare with the true data, so they say something about it; keep them, or pay for
them. Reports mark them so.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpassay.errors import InvalidArgument
from dpassay.synth.base import Fitted
from dpassay.synth.models import Records
from dpassay.synth.queries.blocks import Marginal
from dpassay.synth.queries.workload import Answers, Workload
from dpassay.types import FloatArray

TRAINING_ROWS = 50_000


@dataclass(frozen=True, eq=False)
class Quality:
    """Errors of answers, as shares of the records.

    Attributes:
        names: the blocks of the workload, by their columns.
        largest: the largest error of each block.
        mean: the mean error of each block.
        total_variation: half the sum of errors of each marginal; NaN for other blocks.

    """

    names: tuple[str, ...]
    largest: FloatArray
    mean: FloatArray
    total_variation: FloatArray

    @property
    def max_error(self) -> float:
        """The largest error over all queries."""
        return float(self.largest.max())

    @property
    def mean_total_variation(self) -> float:
        """The mean total-variation distance over the marginals."""
        return float(np.nanmean(self.total_variation))

    def table(self) -> Any:
        """A frame with one row per block."""
        import pandas as pd

        return pd.DataFrame(
            {
                "queries": self.names,
                "largest error": self.largest,
                "mean error": self.mean,
                "total variation": self.total_variation,
            }
        )


def compare(true: Answers, other: Answers, workload: Workload) -> Quality:
    """The errors of one source of answers against another, block by block."""
    rows = []
    for block, a, b in zip(
        workload, workload.blocks_of(true), workload.blocks_of(other), strict=True
    ):
        error = np.abs(a - b)
        variation = error.sum() / 2 if isinstance(block, Marginal) else np.nan
        rows.append((", ".join(block.columns), error.max(), error.mean(), variation))
    names, largest, mean, variations = zip(*rows, strict=True)
    return Quality(names, np.array(largest), np.array(mean), np.array(variations))


def quality(fitted: Fitted, table: Any, workload: Workload) -> Quality:
    """The errors of a fitted model's own answers on the true table; not private."""
    fitted._check_fitted()
    return compare(Records(fitted.schema, fitted.schema.encode(table)), fitted.model_, workload)


def train_on_synthetic(
    real: Any, synthetic: Any, target: str, *, test: Any, model: Any = None, rng: int = 0
) -> dict[str, float]:
    """Test scores of a model trained on the real and on the synthetic table; not private.

    Args:
        real: the true training frame.
        synthetic: the synthetic frame; or a fitted model, of which as many records as ``real`` has
            are drawn, but not less than 50 000: they cost nothing, and are closer to the model.
        target: the column to predict.
        test: a true frame that was held out.
        model: a scikit-learn estimator; None takes a logistic regression on one-hot columns if the
            target has few values, and a ridge regression otherwise.
        rng: seed of the estimator.

    Returns:
        ``{"real": ..., "synthetic": ...}``: accuracy or R², on records whose target is known.
        Records without one are left out of all three frames.

    """
    if target not in real.columns:
        raise InvalidArgument(f"target={target!r} is not a column of {list(real.columns)}.")
    if isinstance(synthetic, Fitted):
        synthetic = synthetic.sample(max(len(real), TRAINING_ROWS), rng=rng)
    real, synthetic, test = (frame[frame[target].notna()] for frame in (real, synthetic, test))
    if min(map(len, (real, synthetic, test))) == 0:
        raise InvalidArgument(f"target={target!r} is missing in every record of a table.")
    found = {}
    for name, frame in (("real", real), ("synthetic", synthetic)):
        learner = _learner(real, target, rng) if model is None else model
        if frame[target].nunique() < 2:
            found[name] = float((test[target] == frame[target].iloc[0]).mean())
            continue
        found[name] = float(
            learner.fit(frame.drop(columns=target), frame[target]).score(
                test.drop(columns=target), test[target]
            )
        )
    return found


def _learner(real: Any, target: str, rng: int) -> Any:
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_column_selector(dtype_include="number")
    others = make_column_selector(dtype_exclude="number")
    columns = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore"), others),
    )
    few = real[target].dtype.kind not in "f" and real[target].nunique() <= 20
    model = LogisticRegression(max_iter=1000, random_state=rng) if few else Ridge()
    return make_pipeline(columns, model)
