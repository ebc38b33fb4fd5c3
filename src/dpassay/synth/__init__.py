"""Private synthetic data: a public schema, a workload of queries, and who fits a table to them."""

from dpassay._lazy import lazily

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

__all__ = [*_PUBLIC]

__getattr__ = lazily(__name__, _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
