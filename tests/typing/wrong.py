"""What a user gets wrong: a type checker complains of every marked line, and no other."""

from typing import Any

import numpy as np

import dpassay as da
from dpassay.privacy import events

mechanism: Any = None
table: Any = None
schema: da.synth.Schema = da.synth.Schema({"sex": ["F", "M"]})

da.audit(1, ([1], []), claim=da.PureDP(epsilon=1.0))  # wrong: no mechanism
da.audit(mechanism, ([1], []), claim=da.PureDP(epsilon=1.0), wrong=3)  # wrong: no such argument
da.audit(mechanism, ([1], []))  # wrong: the claim is missing
da.audit(mechanism, ([1], []), claim=1j)  # wrong: no claim
da.audit(mechanism, ([1], []), claim=da.GDP(1.0), trials="many")  # wrong: no number
da.audit(mechanism, ([1], []), claim=da.GDP(1.0)).epsilon  # wrong: it is in the bound
da.audits  # wrong: no such name
da.bounds.one_runs  # wrong: no such name in a subpackage
da.PureDP("1.0")  # wrong: no number
da.PureDP(1.0, neighbouring="add")  # wrong: no such relation
da.ApproxDP(1.0, 1e-5, sigma=2.0)  # wrong: no such argument
da.ApproxDP(1.0, 1e-5, kind="sure")  # wrong: no such kind
da.GDP(1.0, method=3)  # wrong: no text
da.GDP(mu=1.0, sigma=2.0)  # wrong: no such argument
da.GDP(mu=1.0).epsilon("1e-5")  # wrong: no number
da.GDP(mu=1.0).epsilon(1e-5).mean()  # wrong: one delta gives one number
da.GDP(mu=1.0).delta(np.ones(3)).is_integer()  # wrong: three epsilons give three numbers
da.calibrate(events.Gaussian)  # wrong: the target is missing
events.Sampled(events.Gaussian(1.0), sampling_rate=0.1, scheme=0)  # wrong: no such scheme
da.mechanisms.laplace(3.0, sensitivity=1.0, epsilon=1.0, rng="0")  # wrong: no source of noise
da.mechanisms.laplace(3.0, 1.0, 1.0)  # wrong: by name only
da.lower_bound_from_counts(tp=1, fn=1, fp=1, delta=0.0)  # wrong: tn is missing
da.lower_bound_from_counts(tp=1, fn=1, fp=1, tn=1, delta=0.0).refuted  # wrong: that is a verdict's
da.one_run([1.0], [True], delta=1e-5, rng=[0, "a"])  # wrong: no source of randomness
da.learn.PrivateRidge(solver=3)  # wrong: no text
da.learn.PrivateRidge(random_state="zero")  # wrong: no seed
da.synth.MWEM(table, epsilon="1")  # wrong: no number
da.synth.MWEM(schema, eps=1.0)  # wrong: no such argument
da.synth.FEM(schema, rounds=1.5)  # wrong: no whole number
da.optim.L1Ball(3)  # wrong: the radius is missing
da.account(events.Gaussian(1.0), method="renyi")  # wrong: no such method
da.lower_bound([1.0], [0.0], delta=0.0, method="clopper")  # wrong: no such method
da.lower_bound([1.0], [0.0], delta=0.0, threshold="best")  # wrong: no such rule
events.Sampled(events.Gaussian(1.0), 0.01, "poison")  # wrong: no such scheme
da.PureDP(1.0, n_record=3)  # wrong: no such argument
da.calibrate(events.Gaussian, da.ApproxDP(1.0, 1e-5), method="renyi")  # wrong: no such method
da.one_run([1.0], [True], delta=1e-5, method="steinkes")  # wrong: no such method
da.one_run([1.0], [True], delta=1e-5, sides="left")  # wrong: no such side
da.one_run([1.0], [True], delta=1e-5, guesses="best")  # wrong: no such rule
da.learn.PrivateRidge(solver="svd")  # wrong: no such solver
da.learn.PrivateLogisticRegression(solver="lbfgs")  # wrong: no such solver
da.learn.PrivateLasso(loss="squared")  # wrong: no such loss
da.mechanisms.report_noisy_max([1.0], sensitivity=1.0, epsilon=1.0, noise="normal")  # wrong: none
da.attacks.attack(None, [1.0], [2.0], variances="shrunk")  # wrong: no such option
