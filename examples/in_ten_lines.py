"""The example of the README: a release that breaks its claim, and what a training proves."""

import dpassay as da


def release(data, rng):  # says that it is 1-DP, but its noise is that of epsilon = 4
    return len(data) + rng.laplace(scale=0.25)


verdict = da.audit(release, ([1, 2, 3], [1, 2]), claim=da.PureDP(epsilon=1.0))
print(verdict)  # refuted: epsilon >= 1.0042 at delta=0 (confidence 0.95), claimed 1; ...

training = da.dp_sgd_event(noise_multiplier=1.0, sampling_rate=0.01, steps=1000)
print(da.account(training).epsilon(delta=1e-5))  # 1.828: proved, an upper bound
