"""What is promised: privacy curves, events, accounting, composition, calibration."""

from dpassay.privacy.accounting import account
from dpassay.privacy.brackets import Bracket, bracket
from dpassay.privacy.calibration import (
    calibrate,
    exponential_epsilon,
    gaussian_noise_multiplier,
    laplace_noise_multiplier,
    randomized_response_noise,
)
from dpassay.privacy.combined import Best
from dpassay.privacy.curves import GDP, PLD, RDP, ZCDP, ApproxDP, PureDP
from dpassay.privacy.events import (
    Allocated,
    Approx,
    BoundedRange,
    Event,
    Gaussian,
    Laplace,
    MatrixMechanism,
    NoisyMax,
    NonPrivate,
    Pure,
    RandomizedResponse,
    Repeated,
    Sampled,
    SampledUser,
    Selected,
    Sequence,
    Shuffled,
    ZeroConcentrated,
    allocation_event,
    bandmf_event,
    dp_sgd_event,
    from_dict,
    sample_group,
    shuffled_event,
)
from dpassay.privacy.groups import replace_one_from_add_remove
from dpassay.privacy.ledger import Ledger
from dpassay.privacy.risk import Advantage, AttackRate, BayesError
from dpassay.privacy.strategies import strategy_sensitivity
from dpassay.privacy.translation import from_dp_accounting, to_dp_accounting

__all__ = [
    "GDP",
    "PLD",
    "RDP",
    "ZCDP",
    "Advantage",
    "Allocated",
    "Approx",
    "ApproxDP",
    "AttackRate",
    "BayesError",
    "Best",
    "BoundedRange",
    "Bracket",
    "Event",
    "Gaussian",
    "Laplace",
    "Ledger",
    "MatrixMechanism",
    "NoisyMax",
    "NonPrivate",
    "Pure",
    "PureDP",
    "RandomizedResponse",
    "Repeated",
    "Sampled",
    "SampledUser",
    "Selected",
    "Sequence",
    "Shuffled",
    "ZeroConcentrated",
    "account",
    "allocation_event",
    "bandmf_event",
    "bracket",
    "calibrate",
    "dp_sgd_event",
    "exponential_epsilon",
    "from_dict",
    "from_dp_accounting",
    "gaussian_noise_multiplier",
    "laplace_noise_multiplier",
    "randomized_response_noise",
    "replace_one_from_add_remove",
    "sample_group",
    "shuffled_event",
    "strategy_sensitivity",
    "to_dp_accounting",
]
