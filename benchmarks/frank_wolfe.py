"""Sparse Frank-Wolfe against a sparse full recompute, staleness, measured risk beside its bound.

Run with ``python -m benchmarks frank_wolfe [--quick]``, or some parts of it with ``python -m
benchmarks.frank_wolfe [--quick] [--out FOLDER] [part ...]``. The table has RCV1's shape (20 242 x
47 236, 75 entries a row, columns by a power law, entries in (0, 1]); times are CPU, per iteration,
set-up left out and shown apart. The peer is the same algorithm with X @ w, X.T @ q and one Gumbel
draw per vertex in every step, in NumPy and SciPy; both draw the same distribution.

- ``speed``: at least 40 times at epsilon = .1, 10 times at 1, never slower at 10.
- ``growth``: from p = 5·10^4 to 10^6 at fixed entries a row, at most 1.5 √20 = 6.7 times.
- ``staleness``: the mean loss of the incremental solver beside that of exact scores; within 1 %.
- ``risk``: mean excess of the dense solver beside the bound of theorem 27, for N, epsilon and T.
- ``plot``: the same as a figure, and for projected noisy gradient descent beside theorem 3;
  written with its numbers to FOLDER, by default ``benchmarks/results/excess_risk``.
"""

import argparse
import contextlib
import functools
import math
import time
from pathlib import Path

import numpy as np
from scipy import optimize, sparse, special

from dpassay.optim import frank_wolfe as fw
from dpassay.optim import sparse_frank_wolfe as solver
from dpassay.optim.gradient import noisy_gradient_descent, onto_ball
from dpassay.optim.l1_ball import minimise_on_l1_ball
from dpassay.optim.losses import (
    Huber,
    Logistic,
    Rows,
    Squared,
    lipschitz,
    mean_gradient,
    mean_loss,
    smoothness,
)
from dpassay.optim.objectives import LinearObjective
from dpassay.optim.polytopes import L1Ball
from dpassay.privacy import excess_risk, gaussian_noise_multiplier
from dpassay.report.figures import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    Picture,
    house_style,
    panels,
    save_all,
)

SHAPE, PER_ROW, DELTA = (20_242, 47_236), 75, 1e-6


def table(n, p, per_row=PER_ROW, seed=0):
    """Rows with about ``per_row`` features, the r-th most frequent one with chance ~ 1/(r + 20)."""
    rng = np.random.default_rng(seed)
    chance = np.cumsum(1 / (np.arange(p) + 20.0))
    lengths = rng.poisson(per_row, n) + 1
    ranks = np.searchsorted(chance / chance[-1], rng.random(lengths.sum()))
    columns = rng.permutation(p)[ranks]
    rows = np.repeat(np.arange(n), lengths)
    X = sparse.csr_matrix((np.ones(len(rows)), (rows, columns)), (n, p))
    X.data = rng.random(X.nnz)
    frequent = np.argsort(np.bincount(X.indices, minlength=p))[::-1][:60]
    w = np.zeros(p)
    w[frequent] = 3 * rng.normal(size=60)
    z = X @ w
    return X, (rng.random(n) < special.expit(z - np.median(z))).astype(float)


def selection(loss, n, radius, steps, epsilon):
    sensitivity = fw.score_sensitivity(lipschitz(loss, 1.0, math.inf), radius, n)
    return fw.calibrate_selection(
        "gumbel", sensitivity=sensitivity, steps=steps, epsilon=epsilon, delta=DELTA
    )


def recompute(X, y, loss, radius, chosen, steps, rng):
    """The peer: everything anew in every step."""
    n, p = X.shape
    w, columns = np.zeros(p), X.T.tocsr()
    start = time.process_time()
    for t in range(steps):
        residuals = loss.residual((X @ w)[:, None], y)[:, 0]
        scores = (-radius / n) * (columns @ residuals)
        noisy = np.concatenate([scores, -scores]) + rng.gumbel(scale=chosen.scale, size=2 * p)
        sign, j = divmod(int(noisy.argmax()), p)
        gamma = 2 / (t + 2)
        w *= 1 - gamma
        w[j] += gamma * radius * (1 - 2 * sign)
    return (time.process_time() - start) / steps


def ours(X, y, loss, radius, chosen, steps, seed=0):
    """Seconds per iteration, seconds to set up, and the weights."""
    options = {"radius": radius, "n_records": X.shape[0], "selection": chosen, "rng": seed}
    start = time.process_time()
    solver.sparse_frank_wolfe(X, y, loss, steps=1, **options)
    setup = time.process_time() - start
    start = time.process_time()
    done = solver.sparse_frank_wolfe(X, y, loss, steps=steps, **options)
    return (time.process_time() - start - setup) / steps, setup, done.w


def speed(quick):
    X, y = table(*SHAPE)
    steps, radius = 300 if quick else 1000, 50.0
    print(f"speed, T = {steps}: ms per iteration, peer / ours, set-up")
    for loss in (Logistic(), Squared(radius + 1)):
        for epsilon in (0.1, 1.0, 10.0):
            chosen = selection(loss, X.shape[0], radius, steps, epsilon)
            peer = recompute(X, y, loss, radius, chosen, 30, np.random.default_rng(0))
            mine, setup, _ = ours(X, y, loss, radius, chosen, steps)
            print(
                f"  {type(loss).__name__:<9} epsilon {epsilon:<5g} {peer * 1e3:8.3f} "
                f"{mine * 1e3:8.3f}  {peer / mine:6.1f} times  {setup * 1e3:6.0f} ms",
                flush=True,
            )


def growth(quick):
    steps = 300 if quick else 1000
    print("growth, logistic, epsilon = .1: ms per iteration")
    seen = []
    for p in (50_000, 1_000_000):
        X, y = table(SHAPE[0], p)
        chosen = selection(Logistic(), X.shape[0], 50.0, steps, 0.1)
        seen.append(ours(X, y, Logistic(), 50.0, chosen, steps)[0])
        print(f"  p = {p:<9} {seen[-1] * 1e3:.3f}", flush=True)
    print(f"  {seen[1] / seen[0]:.2f} times; the goal is {1.5 * math.sqrt(20):.1f}")


@contextlib.contextmanager
def _exact_scores():
    """Every row is refreshed in every step."""
    window, due = solver._Stale.window, solver._Stale.due
    solver._Stale.window, solver._Stale.due = 1e-12, lambda self, _: np.arange(self.data.n_rows)
    yield
    solver._Stale.window, solver._Stale.due = window, due


def staleness(quick):
    X, y = table(*SHAPE)
    steps, radius, seeds = 300, 50.0, 3 if quick else 12
    objective = LinearObjective(Logistic(), Rows(X, constant=0.0), y, X.shape[0])
    print(f"staleness, logistic, T = {steps}: mean loss (deviation of the mean), exact / stale")
    for epsilon in (0.1, 1.0, 10.0):
        chosen = selection(Logistic(), X.shape[0], radius, steps, epsilon)
        means = []
        for keep in (contextlib.nullcontext, _exact_scores)[::-1]:
            with keep():
                runs = [ours(X, y, Logistic(), radius, chosen, steps, s)[2] for s in range(seeds)]
            losses = [objective.value(w) for w in runs]
            means.append((np.mean(losses), np.std(losses) / math.sqrt(seeds)))
        (exact, d), (stale, e) = means
        print(
            f"  epsilon {epsilon:<5g} {exact:.4f} ({d:.4f})  {stale:.4f} ({e:.4f})  "
            f"{100 * (stale / exact - 1):+.2f} %",
            flush=True,
        )


LOSS, RADIUS, P = Huber(2.0), 2.0, 50
TRUTH = np.r_[0.8, -0.6, 0.4, np.zeros(P - 3)]


def regression(n, seed=0):
    """Signs as features, and targets within the bound of the loss."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], (n, P))
    X[:, 0] = 1
    return X, np.clip(X @ TRUTH + 0.3 * rng.normal(size=n), -2, 2)


def risk(quick):
    """Mean excess loss, and the bound, which falls with N, epsilon and (at first) T as it does."""
    print("risk, Huber regression, p = 50, radius 2: N, epsilon, T: measured / bound of theorem 27")
    for n in (1000, 10_000) if quick else (1000, 10_000, 100_000):
        for epsilon in (0.3, 1.0, 3.0):
            for steps in (10, None, "bound"):
                T, measured, bound = frank_wolfe_risk(n, epsilon, steps)
                mean = np.mean(measured)
                print(f"  {n:>7} {epsilon:<4g} {T:>5}  {mean:8.4f} / {bound:.4f}", flush=True)


@functools.cache
def _on_l1_ball(n):
    """The objective and its minimum on the l1 ball."""
    X, y = regression(n)
    objective = LinearObjective(LOSS, Rows(X, constant=0.0), y, n)
    return objective, objective.value(minimise_on_l1_ball(objective, P, RADIUS, tolerance=1e-6))


def frank_wolfe_risk(n, epsilon, steps, seeds=3):
    """Steps, excess losses per seed, and the bound of theorem 27 on their mean."""
    objective, best = _on_l1_ball(n)
    ball = L1Ball(P, RADIUS)
    constants = {
        "lipschitz": lipschitz(LOSS, 1.0, math.inf),
        "smoothness": smoothness(LOSS, 1.0, 1),
    }
    plan = fw.plan(ball, n_records=n, epsilon=epsilon, delta=DELTA, steps=steps, **constants)
    options = {"steps": plan.steps, "selection": plan.selection}
    runs = [fw.frank_wolfe(objective, ball, **options, rng=seed).w for seed in range(seeds)]
    bound = excess_risk.frank_wolfe_excess_risk(
        plan.steps,
        selection_error=plan.selection.error(ball.n_vertices),
        smoothness=constants["smoothness"],
        diameter=ball.l1_diameter,
    )
    return plan.steps, [objective.value(w) - best for w in runs], bound


@functools.cache
def _on_l2_ball(n):
    """Rows, targets and the minimum of the mean loss, which lies inside the ball."""
    X, y = regression(n)
    rows = Rows(X[:, 1:])  # its constant is the first feature
    found = optimize.minimize(
        lambda w: mean_loss(LOSS, rows, y, w[:, None], n_records=len(y)),
        np.zeros(P),
        jac=lambda w: mean_gradient(LOSS, rows, y, w[:, None], n_records=len(y))[:, 0],
        method="L-BFGS-B",
        options={"ftol": 1e-14, "gtol": 1e-9},
    )
    assert np.linalg.norm(found.x) < RADIUS
    return rows, y, found.fun


MOST_STEPS = 2000


def gradient_steps(n, epsilon):
    """T at which the noise of the step is as large as the gradient may be, L² = p · noise²."""
    share = gaussian_noise_multiplier(epsilon, DELTA) / n  # of one step alone
    return int(np.clip(1 / (P * share**2), 2, MOST_STEPS))


def gradient_risk(n, epsilon, steps, seeds=3):
    """Steps, excess losses per seed, and the bound of theorem 3 on their mean.

    T full-batch steps of equal Gaussian noise cost what one with a √T-th of it costs.
    """
    rows, y, best = _on_l2_ball(n)
    T = steps or gradient_steps(n, epsilon)
    size = lipschitz(LOSS, math.sqrt(P))
    noise = math.sqrt(T) * gaussian_noise_multiplier(epsilon, DELTA)
    constants = {"lipschitz": size, "noise": noise * size / n}
    G = math.hypot(size, math.sqrt(P) * constants["noise"])
    rates = 2 * RADIUS / (G * np.sqrt(np.arange(1, T + 1)))
    options = {"steps": T, "learning_rate": rates, "clip": size, "project": onto_ball(RADIUS)}
    runs = [
        noisy_gradient_descent(rows, y, LOSS, noise_multiplier=noise, **options, rng=seed).value
        for seed in range(seeds)
    ]
    bound = excess_risk.sgd_excess_risk(T, n_features=P, diameter=2 * RADIUS, **constants)
    return T, [mean_loss(LOSS, rows, y, W, n_records=len(y)) - best for W in runs], bound


# What is drawn: (N, epsilon, steps) of each point, by what varies.
CASES = {
    "frank-wolfe": (
        frank_wolfe_risk,
        {
            "records N": [(n, 1.0, "bound") for n in (300, 1000, 3000, 10_000, 30_000, 100_000)],
            "ε": [(10_000, e, "bound") for e in (0.1, 0.3, 1.0, 3.0, 10.0)],
            "steps T": [(10_000, 1.0, t) for t in (3, 10, 30, 100, 300, 1000)],
        },
    ),
    "gradient-descent": (
        gradient_risk,
        {
            "records N": [(n, 0.3, None) for n in (300, 1000, 3000, 10_000, 30_000)],
            "ε": [(3000, e, None) for e in (0.03, 0.1, 0.3, 1.0, 3.0)],
            "steps T": [(3000, 0.3, t) for t in (3, 10, 30, 100, 300, 1000)],
        },
    ),
}
TEXTS = {
    "frank-wolfe": (
        "Frank-Wolfe on the l1 ball beside theorem 27",
        "Private Frank-Wolfe with the number of steps that minimises the bound (left, middle), and "
        "for given numbers of steps (right), where more steps first help and then cost noise.",
    ),
    "gradient-descent": (
        "Projected noisy gradient descent beside theorem 3",
        "Steps of the size that theorem 3 has. T is such that noise and gradient are equally large "
        "at the worst, at most 2000, which stops the bound at the right ends (left, middle). Green "
        "is the order of the best algorithm, L D √(p log(1/δ))/(N ε), with constant 1.",
    ),
}


def measured_picture(name, quick):
    """Measured excess risk and its bound against N, epsilon and T."""
    task, sweeps = CASES[name]
    curves = {}
    with house_style():
        figure, axes = panels(3, width=4.2)
        for i, (ax, (label, points)) in enumerate(zip(axes, sweeps.items(), strict=True)):
            points = points[: -1 if quick and i == 0 else None]
            found = [task(*point, seeds=3 if quick else 10) for point in points]
            x = [T if i == 2 else point[i] for point, (T, _, _) in zip(points, found, strict=True)]
            curves[label] = {
                "x": x,
                "steps": [T for T, _, _ in found],
                "measured": [measured for _, measured, _ in found],
                "bound": [bound for _, _, bound in found],
            }
            if name == "gradient-descent" and i < 2:
                curves[label]["order"] = [_order(n, epsilon) for n, epsilon, _ in points]
            _draw_risk(ax, label, curves[label])
        axes[0].set_ylabel("excess risk")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    title, caption = TEXTS[name]
    caption = f"{caption} {_slopes(curves)} {_best_steps(curves['steps T'])}"
    return Picture(name, title, caption, figure, {}, curves)


def _order(n, epsilon):
    size = lipschitz(LOSS, math.sqrt(P))
    shape = {"n_records": n, "n_features": P, "lipschitz": size, "diameter": 2 * RADIUS}
    return excess_risk.sgd_rate(**shape, epsilon=epsilon, delta=DELTA)


def _slopes(curves):
    """How steeply both fall, in words."""
    words = []
    for label in ("records N", "ε"):
        drawn = curves[label]
        across = math.log(drawn["x"][-1] / drawn["x"][0])
        lines = {"measured": np.mean(drawn["measured"], axis=1), "bound": drawn["bound"]}
        measured, bound = (math.log(y[-1] / y[0]) / across for y in lines.values())
        words.append(f"as {label} to the power {measured:.2f} (bound {bound:.2f})")
    return f"The measured risk falls {' and '.join(words)}, from end to end."


def _best_steps(drawn):
    """Where both are smallest, and how far apart they are."""
    mean, bound = np.mean(drawn["measured"], axis=1), np.array(drawn["bound"])
    least = [drawn["x"][int(np.argmin(line))] for line in (mean, bound)]
    return (
        f"Of the numbers of steps shown it is smallest at T = {least[0]}, the bound at {least[1]}; "
        f"the bound is {(bound / mean).min():.0f} times as large or more (right)."
    )


def _draw_risk(ax, label, drawn):
    x, runs = drawn["x"], np.array(drawn["measured"])
    ax.fill_between(x, runs.min(axis=1), runs.max(axis=1), color=BLUE, alpha=0.2, lw=0)
    ax.plot(x, runs.mean(axis=1), "o-", color=BLUE, ms=4, label="measured")
    ax.plot(x, drawn["bound"], "s--", color=ORANGE, ms=4, label="bound of the theorem")
    if "order" in drawn:
        ax.plot(x, drawn["order"], ":", color=GREEN, label="order of the best")
    objective, best = _on_l1_ball(3000)
    zero = objective.value(np.zeros(P)) - best
    ax.axhline(zero, color=BLACK, lw=0.6, label="w = 0, without any data")
    ax.set(xscale="log", yscale="log", xlabel=label)


def plot(quick, out=Path("benchmarks/results/excess_risk")):
    """Write both figures, their numbers and a page."""
    pictures = [measured_picture(name, quick) for name in CASES]
    introduction = (
        "Huber regression, 50 features of ±1, δ = 1e-6, add-remove. Lines are means over seeds, "
        "bands reach from the lowest to the highest; the thin line is the excess risk of w = 0."
    )
    title = "Measured excess risk beside the theorems"
    for path in save_all(pictures, out, title=title, introduction=introduction):
        print(f"  {path}")
    for picture in pictures:
        print(f"  {picture.title}. {picture.caption}")


PARTS = {part.__name__: part for part in (speed, growth, staleness, risk, plot)}


def main(quick: bool = False) -> None:
    """Print the four tables and draw the figures."""
    for part in PARTS.values():
        part(quick)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("part", nargs="*", choices=[*PARTS, []], help="which ones; all if none")
    parser.add_argument("--quick", action="store_true", help="fewer cases and repetitions")
    parser.add_argument("--out", type=Path, help="folder of the figures")
    chosen = parser.parse_args()
    for name in chosen.part or PARTS:
        extra = {"out": chosen.out} if name == "plot" and chosen.out else {}
        PARTS[name](chosen.quick, **extra)
