"""Private optimisation: one solver each, free of estimators; used by learners and synthetic data.

Losses of linear models in :mod:`~dpassay.optim.losses`, noisy gradient descent and DP-SGD in
:mod:`~dpassay.optim.gradient`, Frank-Wolfe in :mod:`~dpassay.optim.frank_wolfe`.
"""
