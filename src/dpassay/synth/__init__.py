"""Private synthetic data: a public schema, a workload of queries, and who fits a table to them."""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily

if TYPE_CHECKING:
    from dpassay.synth.base import Fitted, Synthesizer, load
    from dpassay.synth.comparison import (
        Quality,
        compare,
        quality,
        train_on_synthetic,
    )
    from dpassay.synth.fidelity import Fidelity, compare_tables
    from dpassay.synth.methods.baselines import Independent, NoisyMarginals
    from dpassay.synth.methods.blr import BLR, blr_accuracy
    from dpassay.synth.methods.dual_query import DQRS, DualQuery
    from dpassay.synth.methods.fem import FEM, SepFEM
    from dpassay.synth.methods.frank_wolfe import FrankWolfe
    from dpassay.synth.methods.mwem import MWEM
    from dpassay.synth.methods.product_mixture import ProductMixture
    from dpassay.synth.queries.workload import Workload
    from dpassay.synth.readers import ReaderQuality
    from dpassay.synth.recommended import fit, fit_with_domain
    from dpassay.synth.tables.columns import (
        Categorical,
        Column,
        Date,
        Numeric,
        Ordinal,
    )
    from dpassay.synth.tables.domains import DomainWarning, MeasuredDomain, measure_domain
    from dpassay.synth.tables.schema import Schema
    from dpassay.synth.tables.times import TimeOfDay
    from dpassay.synth.theorems import (
        Guarantee,
        blr_error_upper,
        population_error_upper,
        query_error_rate,
        query_error_upper,
    )

_PUBLIC = {
    "Schema": "dpassay.synth.tables.schema",
    "Column": "dpassay.synth.tables.columns",
    "Categorical": "dpassay.synth.tables.columns",
    "Ordinal": "dpassay.synth.tables.columns",
    "Numeric": "dpassay.synth.tables.columns",
    "Date": "dpassay.synth.tables.columns",
    "TimeOfDay": "dpassay.synth.tables.times",
    "DomainWarning": "dpassay.synth.tables.domains",
    "MeasuredDomain": "dpassay.synth.tables.domains",
    "measure_domain": "dpassay.synth.tables.domains",
    "fit_with_domain": "dpassay.synth.recommended",
    "Workload": "dpassay.synth.queries.workload",
    "Fitted": "dpassay.synth.base",
    "Synthesizer": "dpassay.synth.base",
    "load": "dpassay.synth.base",
    "ProductMixture": "dpassay.synth.methods.product_mixture",
    "FrankWolfe": "dpassay.synth.methods.frank_wolfe",
    "fit": "dpassay.synth.recommended",
    "Independent": "dpassay.synth.methods.baselines",
    "NoisyMarginals": "dpassay.synth.methods.baselines",
    "BLR": "dpassay.synth.methods.blr",
    "blr_accuracy": "dpassay.synth.methods.blr",
    "MWEM": "dpassay.synth.methods.mwem",
    "DualQuery": "dpassay.synth.methods.dual_query",
    "DQRS": "dpassay.synth.methods.dual_query",
    "FEM": "dpassay.synth.methods.fem",
    "SepFEM": "dpassay.synth.methods.fem",
    "Guarantee": "dpassay.synth.theorems",
    "query_error_upper": "dpassay.synth.theorems",
    "query_error_rate": "dpassay.synth.theorems",
    "population_error_upper": "dpassay.synth.theorems",
    "blr_error_upper": "dpassay.synth.theorems",
    "Quality": "dpassay.synth.comparison",
    "quality": "dpassay.synth.comparison",
    "compare": "dpassay.synth.comparison",
    "train_on_synthetic": "dpassay.synth.comparison",
    "Fidelity": "dpassay.synth.fidelity",
    "compare_tables": "dpassay.synth.fidelity",
    "ReaderQuality": "dpassay.synth.readers",
}

__all__ = [
    "BLR",
    "DQRS",
    "FEM",
    "MWEM",
    "Categorical",
    "Column",
    "Date",
    "DomainWarning",
    "DualQuery",
    "Fidelity",
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
    "ReaderQuality",
    "Schema",
    "SepFEM",
    "Synthesizer",
    "TimeOfDay",
    "Workload",
    "blr_accuracy",
    "blr_error_upper",
    "compare",
    "compare_tables",
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

lazily(__name__, _PUBLIC)
