"""Private synthetic data: a public schema, a workload of queries, and who fits a table to them."""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily

if TYPE_CHECKING:
    from dpassay.synth.base import Fitted, Synthesizer, load
    from dpassay.synth.baselines import Independent, NoisyMarginals
    from dpassay.synth.blr import BLR, blr_accuracy
    from dpassay.synth.columns import (
        Categorical,
        Column,
        Date,
        Numeric,
        Ordinal,
    )
    from dpassay.synth.comparison import (
        Quality,
        compare,
        quality,
        train_on_synthetic,
    )
    from dpassay.synth.domains import MeasuredDomain, fit_with_domain, measure_domain
    from dpassay.synth.dual_frank_wolfe import FrankWolfe
    from dpassay.synth.dual_query import DQRS, DualQuery
    from dpassay.synth.fem import FEM, SepFEM
    from dpassay.synth.mixture import ProductMixture, fit
    from dpassay.synth.mwem import MWEM
    from dpassay.synth.schema import Schema
    from dpassay.synth.theorems import (
        Guarantee,
        blr_error_upper,
        population_error_upper,
        query_error_rate,
        query_error_upper,
    )
    from dpassay.synth.workload import Workload

_PUBLIC = {
    "Schema": "dpassay.synth.schema",
    "Column": "dpassay.synth.columns",
    "Categorical": "dpassay.synth.columns",
    "Ordinal": "dpassay.synth.columns",
    "Numeric": "dpassay.synth.columns",
    "Date": "dpassay.synth.columns",
    "MeasuredDomain": "dpassay.synth.domains",
    "measure_domain": "dpassay.synth.domains",
    "fit_with_domain": "dpassay.synth.domains",
    "Workload": "dpassay.synth.workload",
    "Fitted": "dpassay.synth.base",
    "Synthesizer": "dpassay.synth.base",
    "load": "dpassay.synth.base",
    "ProductMixture": "dpassay.synth.mixture",
    "FrankWolfe": "dpassay.synth.dual_frank_wolfe",
    "fit": "dpassay.synth.mixture",
    "Independent": "dpassay.synth.baselines",
    "NoisyMarginals": "dpassay.synth.baselines",
    "BLR": "dpassay.synth.blr",
    "blr_accuracy": "dpassay.synth.blr",
    "MWEM": "dpassay.synth.mwem",
    "DualQuery": "dpassay.synth.dual_query",
    "DQRS": "dpassay.synth.dual_query",
    "FEM": "dpassay.synth.fem",
    "SepFEM": "dpassay.synth.fem",
    "Guarantee": "dpassay.synth.theorems",
    "query_error_upper": "dpassay.synth.theorems",
    "query_error_rate": "dpassay.synth.theorems",
    "population_error_upper": "dpassay.synth.theorems",
    "blr_error_upper": "dpassay.synth.theorems",
    "Quality": "dpassay.synth.comparison",
    "quality": "dpassay.synth.comparison",
    "compare": "dpassay.synth.comparison",
    "train_on_synthetic": "dpassay.synth.comparison",
}

__all__ = [
    "BLR",
    "DQRS",
    "FEM",
    "MWEM",
    "Categorical",
    "Column",
    "Date",
    "DualQuery",
    "Fitted",
    "FrankWolfe",
    "Guarantee",
    "Independent",
    "MeasuredDomain",
    "NoisyMarginals",
    "Numeric",
    "Ordinal",
    "ProductMixture",
    "Quality",
    "Schema",
    "SepFEM",
    "Synthesizer",
    "Workload",
    "blr_accuracy",
    "blr_error_upper",
    "compare",
    "fit",
    "fit_with_domain",
    "load",
    "measure_domain",
    "population_error_upper",
    "quality",
    "query_error_rate",
    "query_error_upper",
    "train_on_synthetic",
]

if not TYPE_CHECKING:  # or every name would be known to a type checker, as Any
    __getattr__ = lazily(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
