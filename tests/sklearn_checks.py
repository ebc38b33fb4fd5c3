"""Checks of scikit-learn that a private estimator cannot pass, with the reason."""

_ALIKE = "noise and the public number of records do not follow the weights"
_NONE = "this solver takes no weights, and says so"
_WEIGHTS = (
    "check_sample_weights_pandas_series",
    "check_sample_weights_not_an_array",
    "check_sample_weights_list",
    "check_sample_weights_shape",
    "check_sample_weights_not_overwritten",
    "check_class_weight_classifiers",
    "check_classifiers_one_label_sample_weights",
)


def expected_to_fail(estimator):
    """By name: weights of 2 are not a record twice; some solvers take no weights at all."""
    names = ("dense_data", "sparse_data")
    reasons = {f"check_sample_weight_equivalence_on_{name}": _ALIKE for name in names}
    reasons["check_all_zero_sample_weights_error"] = "an error would tell of the one that is not 0"
    if estimator.solver in ("output", "objective", "frank-wolfe"):
        reasons |= dict.fromkeys(_WEIGHTS, _NONE)
    return reasons
