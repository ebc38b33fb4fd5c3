"""What a user writes: a type checker must accept every line."""

from pathlib import Path

import numpy as np

import dpassay as da
from dpassay.privacy import events

# Privacy.
claim: da.PrivacyCurve = da.ApproxDP(epsilon=1.0, delta=1e-5)
one: float = da.GDP(mu=1.0).epsilon(1e-5)
many = da.ZCDP(rho=0.1).delta(np.linspace(0, 3, 5)).mean()
listed = da.PureDP(1.0, neighbouring="replace-one").tradeoff([0.1, 0.2]).max()
event = events.Sampled(events.Gaussian(1.0), 0.01)
proved: float = da.account(event, "pld").epsilon(1e-5)
training = da.dp_sgd_event(noise_multiplier=1.1, sampling_rate=0.01, steps=1000)
sigma: float = da.calibrate(lambda s: events.Gaussian(s), target=da.ApproxDP(1.0, 1e-5))

# Mechanisms.
release = da.mechanisms.laplace(3.0, sensitivity=1.0, epsilon=1.0, rng=np.random.default_rng(0))
rounded = release.map(str).value.strip()

# Bounds and audits.
bound: da.LowerBound = da.lower_bound_from_counts(tp=97, fn=3, fp=2, tn=98, delta=1e-5)
same: float = da.lower_bound(np.ones(9), np.zeros(9), delta=1e-5, rng=None).epsilon
coins = np.arange(1000) % 2 == 0
canaries = da.one_run(np.arange(1000.0), coins, delta=1e-5, guesses=(100, 100))


def mechanism(data: list[int], rng: np.random.Generator) -> float:
    return len(data) + rng.laplace()


verdict: da.Verdict = da.audit(mechanism, ([1, 2], [1]), claim=da.PureDP(epsilon=1.0), rng=0)
paired: da.Verdict = da.audit(mechanism, ([1, 2], [1]), claim=(3, 1e-5), neighbours="trusted")
written: da.Verdict = da.audit(mechanism, ([1, 2], [1]), claim="gdp:1.0", fixed_seed="leak")
print(verdict.refuted, verdict.bound.epsilon, verdict.tightness, verdict.claim.epsilon(1e-5))

# Learners, synthetic data, optimisation, data sets.
model = da.learn.PrivateRidge(1.0, 1e-6, data_norm=1.0, target_bound=1.0, random_state=0)
schema = da.synth.Schema({"age": range(120), "sex": ["F", "M"]})
workload = da.synth.Workload.marginals([("age", "sex")])
synthesizer = da.synth.MWEM(schema, workload, epsilon=1.0, delta=1e-6, rng=0)
game = da.synth.FEM(schema, rounds=10, epsilon=1.0, neighbouring="replace-one")
ball = da.optim.L1Ball(3, 1.0)
plan = da.optim.frank_wolfe.plan
rows = da.datasets.made_up_profiles(100, rng=np.random.default_rng(0))


# Reports.
def write(path: Path) -> list[Path]:
    return da.report.write_report(da.report.audit_report(verdict), path)
