"""One released table, the data it was made from, and a holdout: does it tell who was in the data?

Nothing is retrained. Candidates are records of the data (members) and of the holdout; the rest of
the holdout is the attacker's reference. The intervals are about *this* table, with members drawn at
random from its data and others from the same population.

**No epsilon follows from that**, however high the rates: the records of one release are not
independent trials of the synthesizer. There is one exception: every candidate was put into the data
by a fair coin of its own, before the fit (``membership="randomised"``). Then the coins of a random
half of the candidates are given away, whatever they showed; those that were out are the reference,
and the guesses about the other half bound epsilon (:func:`dpassay.one_run`). Given what was given
away, the other coins are still fair and the synthesizer still private in each of those records. (A
reference taken from the records that were out alone would not do: the coins of those left over
would no longer be fair.)

Records that are in the data *and* in the holdout stay: they have one score on both sides and speak
for neither. Leaving out those of the holdout that are in the data would make it rarer than the
data are, and show members where there are none; ``n_shared`` says how many there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dpassay import _check
from dpassay._rng import RngLike, generator
from dpassay.attacks.ceilings import MEMBERSHIPS
from dpassay.attacks.membership import AttackResult, attack
from dpassay.attacks.tables.coding import Coded, Coding, harmonise, learn_coding
from dpassay.attacks.tables.scores import SCORES, Scene, learn_odds
from dpassay.bounds import Interval, auc
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray, LowerBound, PrivacyCurve

MOST_CANDIDATES = 2000
LEAST = 20  # candidates of each side, and rows of reference and released table
COPYING = (
    "Distances to the closest record, singling out, linkability and inference detect copying, not "
    "leaking: a synthesizer without any privacy that copies no row passes all of them. That they "
    "find nothing is no sign of privacy."
)
NO_EPSILON = (
    "No bound on epsilon: the records of one table are not independent trials. Put every candidate "
    "in by a fair coin of its own before the fit and say so (membership='randomised', --coins), or "
    "audit the synthesizer (dpassay.audit_table)."
)
ABOUT = "this table; members drawn from its data, others from the same population"


@dataclass(frozen=True, eq=False)
class TableAttack:
    """What the attacks on one released table found. All intervals hold together.

    Attributes:
        results: one for each attack; see :class:`~dpassay.attacks.AttackResult`.
        skipped: attacks that could say nothing, with the reason.
        drift: the area under the ROC curve of telling members from the holdout *without* the
            released table; None where membership was randomised. If its interval is above a half,
            the holdout is of another population and all rates say so instead of who was in.
        n_members, n_others, n_reference, n_released: how many records of each were looked at.
        n_shared: how many of the other candidates equal a record of the data.
        columns: those that all tables have; only they were looked at.
        ignored: columns that not all of them have.
        membership: "fixed" or "randomised".
        confidence: of all intervals together, drift apart.

    """

    results: tuple[AttackResult, ...]
    skipped: dict[str, str]
    drift: Interval | None
    n_members: int
    n_others: int
    n_reference: int
    n_released: int
    n_shared: int
    columns: tuple[str, ...]
    ignored: tuple[str, ...]
    membership: str
    confidence: float

    @property
    def best(self) -> AttackResult:
        """The attack with the highest lower end of its AUC."""
        return max(self.results, key=lambda r: r.auc.lower)

    @property
    def significant(self) -> bool:
        """Whether some attack is better than a coin by more than chance."""
        return any(r.significant for r in self.results)

    @property
    def drifted(self) -> bool:
        """Whether members and holdout can be told apart without the released table."""
        return self.drift is not None and self.drift.lower > 0.5

    @property
    def bound(self) -> LowerBound | None:
        """The largest lower bound on epsilon; the attacks share its error probability.

        None unless membership was randomised.
        """
        bounds = [r.bound for r in self.results if r.bound is not None]
        return max(bounds, key=lambda b: b.epsilon, default=None)

    def refutes(self, claim: PrivacyCurve) -> bool:
        """Whether the bound is above what the claim says.

        Never without randomised membership; nor for a claim about replaced records, since coins
        add or leave out.
        """
        if self.bound is None or claim.neighbouring != "add-remove":
            return False
        return self.bound.epsilon > float(claim.epsilon(self.bound.delta))

    def __str__(self) -> str:
        lines = [
            f"{self.n_members} members and {self.n_others} others against {self.n_released} "
            f"released rows, with a reference of {self.n_reference}"
        ]
        for r in self.results:
            rates = ", ".join(
                f"TPR at FPR {fpr:g}: {found.value:.3f} [{found.lower:.3f}, {found.upper:.3f}]"
                for fpr, found in r.tpr_at.items()
            )
            lines.append(
                f"  {r.method}: AUC {r.auc.value:.3f} [{r.auc.lower:.3f}, {r.auc.upper:.3f}], "
                f"{rates}; {'found' if r.significant else 'nothing found'}"
            )
        lines += [f"  {name}: not tried, {why}" for name, why in self.skipped.items()]
        if self.drifted and self.drift is not None:
            lines.append(f"  {describe_drift(self.drift)}")
        lines.append(f"  {self.bound or NO_EPSILON}")
        return "\n".join([*lines, f"  {COPYING}"])


def describe_drift(drift: Interval) -> str:
    """What to say where members and holdout differ by themselves."""
    return (
        f"Drift: members and holdout can be told apart without the released table (AUC "
        f"{drift.value:.3f} [{drift.lower:.3f}, {drift.upper:.3f}]). The rates show that, not who "
        "was in the data: take a holdout that was split off at random."
    )


def attack_table(
    released: Any,
    members: Any,
    holdout: Any,
    *,
    reference: Any = None,
    columns: Sequence[str] | None = None,
    methods: Sequence[str] = tuple(SCORES),
    membership: Literal["fixed", "randomised"] = "fixed",
    claim: PrivacyCurve | None = None,
    delta: float = 1e-5,
    fprs: tuple[float, ...] = (0.01,),
    confidence: float = 0.95,
    most: int = MOST_CANDIDATES,
    rng: RngLike = 0,
) -> TableAttack:
    """How well a released table tells records of its data from others.

    Args:
        released: the table that is to go out, as a frame; from any synthesizer.
        members: the data that it was made from; with randomised membership, the candidates whose
            coin put them in.
        holdout: records of the same population that were not used; with randomised membership, all
            candidates whose coin left them out.
        reference: records of the population that are no candidates; None takes a part of the
            holdout, or of the candidates (see the head of this module).
        columns: which to look at; None takes all that the tables have in common.
        methods: of "pair-ratio", "dcr", "dcr-diff" and "classifier".
        membership: "randomised" if every candidate was put in by a fair coin of its own, not: if
            the data were split in halves of given sizes.
        claim: a privacy curve; the results then say what it allows on average.
        delta: where the bound on epsilon is stated, if there is one.
        fprs: false-positive rates to give the true-positive rate at.
        confidence: of all intervals of all attacks together.
        most: so many candidates of each side are looked at, drawn at random.
        rng: seed of the draws, of ties and of the classifier.

    Returns:
        The results; they hold no record. Time grows with candidates × released rows × columns.

    Raises:
        InvalidArgument: tables without a common column or with too few rows, or numbers of
            candidates that fair coins do not give.

    >>> import pandas as pd
    >>> random = np.random.default_rng(0)
    >>> table = pd.DataFrame(random.normal(size=(900, 4)), columns=list("abcd"))
    >>> found = attack_table(table[:300], table[:300], table[300:])  # the data themselves
    >>> found.significant, found.best.method, found.bound
    (True, 'dcr', None)

    """
    for method in methods:
        _check.choice("method", method, tuple(SCORES))
    _check.choice("membership", membership, MEMBERSHIPS)
    confidence, rng = _check.confidence(confidence), generator(rng)
    given = [released, members, holdout] + ([] if reference is None else [reference])
    tables = harmonise(given, columns)
    ignored = {str(n) for t in given for n in t.columns} - set(tables[0].columns)
    most = _check.count("most", most, low=LEAST)
    split = _split(tables[1:], membership == "randomised", most, rng)
    scene, n_in = _scene(tables[0], *split, seed=int(rng.integers(2**31 - 1)))
    level = (1 - confidence) / len(methods)
    results, skipped = [], {}
    for method in methods:
        scores = SCORES[method].score(scene)
        if np.ptp(scores) == 0:
            skipped[method] = "since it says the same of every candidate"
            continue
        found = attack(
            None,
            -scores[:n_in],
            -scores[n_in:],
            membership=membership,
            claim=claim,
            delta=delta,
            fprs=fprs,
            confidence=1 - level,
            rng=int(rng.integers(2**31 - 1)),
        )
        results.append(_name(found, method))
    if not results:
        raise InvalidArgument("no attack can tell any two candidates apart: all are alike.")
    drift = None if membership == "randomised" else _measure_drift(scene, n_in, rng, confidence)
    return TableAttack(
        results=tuple(results),
        skipped=skipped,
        drift=drift,
        n_members=n_in,
        n_others=len(scene.candidates) - n_in,
        n_reference=len(scene.reference),
        n_released=len(scene.released),
        n_shared=_count_shared(split[1], tables[1]),
        columns=scene.coding.names,
        ignored=tuple(sorted(ignored)),
        membership=membership,
        confidence=confidence,
    )


def _name(found: AttackResult, method: str) -> AttackResult:
    """The result of a score under the score's own name."""
    knows = "the released table and a reference" if method != "dcr" else "the released table"
    return replace(
        found,
        method=method,
        knows=f"{knows}; {found.cut.knows}",
        source=SCORES[method].source,
        about=ABOUT,
    )


def _split(
    tables: Sequence[Any], randomised: bool, most: int, rng: np.random.Generator
) -> tuple[Any, Any, Any]:
    """Members and others to be tested, and the reference.

    With randomised membership no draw may depend on a coin: candidates are drawn from both sides
    together.
    """
    import pandas as pd

    members, holdout = tables[0], tables[1]
    if not randomised:
        others = holdout.iloc[rng.permutation(len(holdout))]
        half = len(others) if len(tables) > 2 else len(others) // 2
        tested = others[: min(half, most)]
        reference = tables[2] if len(tables) > 2 else others[len(tested) :]
        inside = members.iloc[rng.permutation(len(members))[:most]]
        return _check_sizes(inside, tested, reference)
    both = pd.concat([members, holdout], ignore_index=True)
    coins = np.arange(len(both)) < len(members)
    order = rng.permutation(len(both))
    known = np.empty(0, int) if len(tables) > 2 else order[: len(both) // 2]
    tested = order[len(known) :][: 2 * most]
    reference = tables[2] if len(tables) > 2 else both.iloc[known[~coins[known]]]
    return _check_sizes(
        both.iloc[tested[coins[tested]]], both.iloc[tested[~coins[tested]]], reference
    )


def _check_sizes(members: Any, others: Any, reference: Any) -> tuple[Any, Any, Any]:
    found = {"the data": members, "the holdout": others, "the reference": reference}
    for name, table in found.items():
        if len(table) < LEAST:
            raise InvalidArgument(
                f"{name} has too few records: {len(table)} can be used after the split, and "
                f"{LEAST} are needed. Give a larger holdout, of {3 * LEAST} records or more."
            )
    return members, others, reference


def _scene(
    released: Any, members: Any, others: Any, reference: Any, seed: int
) -> tuple[Scene, int]:
    """Everything in one coding, and how many of the candidates are members."""
    import pandas as pd

    if len(released) < LEAST:
        raise InvalidArgument(
            f"the released table has {len(released)} rows; {LEAST} are needed to attack it."
        )
    coding: Coding = learn_coding(released, reference)
    both = pd.concat([members, others], ignore_index=True)
    coded = [coding.apply(part) for part in (both, released, reference)]
    return Scene(coding, *coded, seed=seed), len(members)


def _measure_drift(
    scene: Scene, n_in: int, rng: np.random.Generator, confidence: float
) -> Interval:
    """Whether members differ from others by themselves: a classifier of halves, on the others."""
    n = len(scene.candidates)
    member = np.arange(n) < n_in
    learned = np.zeros(n, bool)
    for side in (np.flatnonzero(member), np.flatnonzero(~member)):
        learned[rng.permutation(side)[: len(side) // 2]] = True
    X = _rows(scene.candidates)
    odds = learn_odds(X[learned], member[learned].astype(int), X[~learned], scene.seed)
    return auc(odds[member[~learned]], odds[~member[~learned]], confidence=confidence)


def _rows(coded: Coded) -> FloatArray:
    return np.hstack([coded.numbers, coded.texts.astype(float)])


def _count_shared(others: Any, data: Any) -> int:
    """How many candidates of the holdout equal a record of the data."""
    import pandas

    pd: Any = pandas
    ours, theirs = (pd.util.hash_pandas_object(t, index=False).to_numpy() for t in (others, data))
    return int(np.isin(ours, theirs).sum())
