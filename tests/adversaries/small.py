"""A small game: 6 inputs of which 2 are blank, 3 classes."""

import numpy as np

from dpassay import nets
from dpassay.adversaries import Data

NETWORK = nets.softmax(6, 3)
BLANK = (4, 5)


def records(n, seed):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, 6)) + 2 * np.eye(6)[y]
    X[:, BLANK] = 0
    return nets.Records(X / np.linalg.norm(X, axis=1, keepdims=True), y)


DATA = Data(records(40, 0), records(60, 1))


def training(**changes):
    plain = {"steps": 8, "clip": 0.5, "noise_multiplier": 2.0, "learning_rate": 1.0}
    return nets.Training(**({"network": NETWORK} | plain | changes))
