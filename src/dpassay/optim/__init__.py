"""Private optimisation: one solver each, free of estimators; used by learners and synthetic data.

Losses of linear models in :mod:`~dpassay.optim.losses`, noisy gradient descent and DP-SGD in
:mod:`~dpassay.optim.gradient`, Frank-Wolfe in :mod:`~dpassay.optim.frank_wolfe`. Names are imported
when they are first used.
"""

from typing import TYPE_CHECKING

from dpassay._lazy import lazily

if TYPE_CHECKING:
    from dpassay.optim import (
        frank_wolfe,
        gradient,
        losses,
        objectives,
        polytopes,
        sparse_frank_wolfe,
        stochastic_frank_wolfe,
    )
    from dpassay.optim.gradient import noisy_gradient_descent
    from dpassay.optim.losses import Huber, Logistic, Loss, Multinomial, Rows, Squared
    from dpassay.optim.objectives import LinearObjective
    from dpassay.optim.polytopes import Hull, L1Ball, Polytope, Simplex

_PUBLIC = {
    "frank_wolfe": "dpassay.optim.frank_wolfe",
    "gradient": "dpassay.optim.gradient",
    "losses": "dpassay.optim.losses",
    "objectives": "dpassay.optim.objectives",
    "polytopes": "dpassay.optim.polytopes",
    "sparse_frank_wolfe": "dpassay.optim.sparse_frank_wolfe",
    "stochastic_frank_wolfe": "dpassay.optim.stochastic_frank_wolfe",
    "noisy_gradient_descent": "dpassay.optim.gradient",
    "Huber": "dpassay.optim.losses",
    "Logistic": "dpassay.optim.losses",
    "Loss": "dpassay.optim.losses",
    "Multinomial": "dpassay.optim.losses",
    "Rows": "dpassay.optim.losses",
    "Squared": "dpassay.optim.losses",
    "LinearObjective": "dpassay.optim.objectives",
    "Hull": "dpassay.optim.polytopes",
    "L1Ball": "dpassay.optim.polytopes",
    "Polytope": "dpassay.optim.polytopes",
    "Simplex": "dpassay.optim.polytopes",
}

__all__ = [
    "Huber",
    "Hull",
    "L1Ball",
    "LinearObjective",
    "Logistic",
    "Loss",
    "Multinomial",
    "Polytope",
    "Rows",
    "Simplex",
    "Squared",
    "frank_wolfe",
    "gradient",
    "losses",
    "noisy_gradient_descent",
    "objectives",
    "polytopes",
    "sparse_frank_wolfe",
    "stochastic_frank_wolfe",
]

lazily(__name__, _PUBLIC)
