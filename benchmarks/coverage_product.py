"""How often the tests for independent canaries refute a claim that is exactly true (nominal 5 %).

Run with ``python -m benchmarks.coverage_product`` (half a minute of CPU time; ``--quick``: less).
Rows "covered" are product-dominated by theorem 2 of :mod:`dpassay.bounds.onerun.product`, whatever
the other data, the canaries' norms and the history do. With "kappa left out" theorem 3 would ask
for more than is tested. "Shared luck" is not covered and must err: it is the limit of these tests.
Every training is judged three ways: by the weighted count, by a quarter of the canaries, and by all
of them, unweighted. Limits are drawn once for all trainings of a row.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from dpassay.bounds import DPSGDForm
from dpassay.bounds.onerun.certainty import Certainty
from dpassay.bounds.onerun.product import FixedCount
from dpassay.bounds.onerun.ranking import rank
from dpassay.bounds.onerun.weighted import cut_ranks, draw_errors, draw_places, weigh
from dpassay.canaries import Watch
from dpassay.privacy import GDP

CANARIES, LEVEL, RUNS, QUICK = 1000, 0.05, 1000, 100
DRAWS, CUTS = 99_999, cut_ranks(CANARIES)
Run = tuple[Any, Any]
"""Scores whose centre is 0, and coins."""
Draw = Callable[[np.random.Generator], Run]
STEPS, NOISE = 4, 2.0  # four full batches: 1-GDP


def coins(rng: np.random.Generator) -> Any:
    return rng.random(CANARIES) < 0.5


def gaussian(rng: np.random.Generator) -> Run:
    """Independent Gaussian scores."""
    members = coins(rng)
    return members - 0.5 + rng.normal(size=CANARIES), members


def poisson(rng: np.random.Generator) -> Run:
    """Fifty steps at rate 0.1 and noise 0.6, by log-likelihood ratio."""
    rate, steps, noise = 0.1, 50, 0.6
    members = coins(rng)
    drawn = (rng.random((steps, CANARIES)) < rate) & members
    seen = drawn + noise * rng.normal(size=drawn.shape)
    ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + (seen - 0.5) / noise**2)
    return ratio.sum(axis=0), members


def training(drift: Callable[[Any, np.random.Generator], Any], norm: Any = None) -> Draw:
    """DP-SGD along the canaries' own directions, other data added that look at the last step."""

    def draw(rng: np.random.Generator) -> Run:
        members, last, total = coins(rng), np.zeros(CANARIES), np.zeros(CANARIES)
        for _ in range(STEPS):
            length = np.ones(CANARIES) if norm is None else norm(last)
            last = drift(last, rng) + length * members + NOISE * rng.normal(size=CANARIES)
            total += last
        return total - np.median(total), members

    return draw


def copy_another(last: Any, rng: np.random.Generator) -> Any:
    """What was seen of one canary is carried into the direction of another."""
    return last[rng.permutation(CANARIES)] / 2


def shift_together(last: Any, rng: np.random.Generator) -> Any:
    return np.full(CANARIES, 3 * last.mean())


def follow_signs(last: Any, rng: np.random.Generator) -> Any:
    return np.sign(last) / 2


def no_drift(last: Any, rng: np.random.Generator) -> Any:
    return np.zeros(CANARIES)


def length_by_another(last: Any) -> Any:
    return 1 / (1 + np.abs(np.roll(last, 1)))


def correlated(rho: float) -> Draw:
    """Gradients of equal correlation, decoded jointly (least squares), tested as if orthogonal."""

    def draw(rng: np.random.Generator) -> Run:
        members = coins(rng)
        # In the basis of the gradients: the Gram matrix is (1 - rho) I + rho J.
        noise = np.sqrt(1 - rho) * rng.normal(size=CANARIES) + np.sqrt(rho) * rng.normal()
        seen = (1 - rho) * members + rho * members.sum() + noise
        centred = seen - seen.mean()
        return centred / (1 - rho), members

    return draw


def watched(rng: np.random.Generator) -> Run:
    """Four steps at rate 0.5 and noise 2 by the watch's own scores, which estimate the noise."""
    watch = Watch(CANARIES, CANARIES, rng=rng)
    for _ in range(STEPS):
        drawn = watch.draw(0.5)
        seen = drawn + NOISE * rng.normal(size=CANARIES)
        watch.take(seen, drawn, NOISE, 0.5, known=seen)
    return watch.scores(), watch.coins


def shared_luck(rng: np.random.Generator) -> Run:
    """One |L| for all canaries; each by itself is 1-GDP."""
    members = coins(rng)
    luck = abs(rng.normal(0.5, 1.0))
    right = rng.random(CANARIES) >= special.expit(-luck)
    return np.where(members == right, 1.0, -1.0), members


def of_gdp() -> Certainty:
    return Certainty.of_curve(GDP(mu=1.0))


def of_watched() -> Certainty:
    return DPSGDForm.of(NOISE, 0.5, STEPS).certainty(1.0)


def of_poisson() -> Certainty:
    return DPSGDForm.of(0.6, 0.1, 50).certainty(1.0)


SUBJECTS: dict[str, tuple[Draw, Callable[[], Certainty], str]] = {
    "independent Gaussian": (gaussian, of_gdp, "covered"),
    "Poisson, likelihood ratio": (poisson, of_poisson, "covered"),
    "copies of another canary": (training(copy_another), of_gdp, "covered"),
    "a shared shift": (training(shift_together), of_gdp, "covered"),
    "signs of the last step": (training(follow_signs), of_gdp, "covered"),
    "norms set by another": (training(no_drift, length_by_another), of_gdp, "covered"),
    "Gram correlation 0.1": (correlated(0.1), of_gdp, "kappa left out"),
    "Gram correlation 0.5": (correlated(0.5), of_gdp, "kappa left out"),
    "shared luck": (shared_luck, of_gdp, "not covered"),
    "the scores of a watch": (watched, of_watched, "covered"),
}


@dataclass(frozen=True)
class Limits:
    """The largest counts that refute at the level: weighted, of a quarter, of all."""

    weights: Any
    most: tuple[int, int, int]

    @classmethod
    def of(cls, certainty: Certainty) -> "Limits":
        weights, rng = weigh(certainty, CUTS), np.random.default_rng(18)
        errors = draw_errors(certainty, CUTS, draw_places(CUTS, DRAWS, rng), rng)
        # At most so many of the draws are as small as what refutes: p = (1 + as small) / (B + 1).
        seen = np.sort(errors @ weights)[int(LEVEL * (DRAWS + 1)) - 1] - 1
        fixed = [
            sum(FixedCount(CANARIES, r, u).p_value(certainty) <= LEVEL for u in range(r)) - 1
            for r in (CANARIES // 4, CANARIES)
        ]
        return cls(weights, (int(seen), fixed[0], fixed[1]))

    def refuted(self, run: Run, rng: np.random.Generator) -> list[bool]:
        """Whether the true claim falls, in each of the three ways."""
        scores, members = run
        among = rank(np.abs(scores), (scores > 0) != members, None, rng).members_among
        weighted = int(np.diff(among[CUTS], prepend=0) @ self.weights)
        seen = weighted, int(among[CANARIES // 4]), int(among[-1])
        return [count <= most for count, most in zip(seen, self.most, strict=True)]


def rows(quick: bool = False) -> Iterator[dict[str, Any]]:
    """One row per subject: how many of its trainings refute the truth."""
    runs = QUICK if quick else RUNS
    for index, (name, (draw, make, status)) in enumerate(SUBJECTS.items()):
        rng, limits = np.random.default_rng([18, index]), Limits.of(make())
        found = np.array([limits.refuted(draw(rng), rng) for _ in range(runs)]).sum(axis=0)
        about = {"subject": name, "status": status, "runs": runs}
        yield about | dict(zip(("weighted", "quarter", "all"), found.tolist(), strict=True))


def run(quick: bool = False) -> list[dict[str, Any]]:
    """All rows."""
    return list(rows(quick))


def main(quick: bool = False) -> None:
    for row in rows(quick):
        print(
            f"{row['subject']:26s} {row['status']:14s} of {row['runs']}: weighted "
            f"{row['weighted']}, a quarter {row['quarter']}, all {row['all']}",
            flush=True,
        )


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
