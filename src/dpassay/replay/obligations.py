"""What a proof of privacy needs, checked on a pair of executions: one function per rule.

A *finding* is a counterexample to an obligation: data sets D and D', and noisy values for which it
does not hold. It breaks the proof of a claim; by itself it does not refute the claim.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpassay.replay.entries import Entry, RawDraw
from dpassay.replay.prices import ROUNDING, Bill, rounding_of
from dpassay.replay.sites import Site
from dpassay.replay.tape import CONTINUOUS, SAMPLERS, Tape, is_telling


@dataclass(frozen=True)
class Rule:
    """A rule: its name, one line about it, and how to repair what it finds."""

    id: str
    name: str
    text: str
    help: str


RULES = {
    rule.id: rule
    for rule in (
        Rule("DPA101", "calls-differ", "the calls that draw noise depend on the data",
             "Draw the same noise for every data set: fix the number of steps, and never skip a "
             "call because of private data."),
        Rule("DPA102", "scale-differs", "the scale of the noise depends on the data",
             "Scale the noise to a declared bound, not to a statistic of the records."),
        Rule("DPA103", "shape-differs", "the shape of a noisy value depends on the data",
             "Declare categories and bins; add noise to all of them, the empty ones included."),
        Rule("DPA104", "rate-differs", "the sampling rate depends on the data",
             "Fix the rate; a rate of batch size over the true n differs between neighbours."),
        Rule("DPA201", "moves-too-far", "a query moves by more than its declared sensitivity",
             "Clip every record before it enters the sum."),
        Rule("DPA202", "noise-too-small", "the noise protects less than the claim says",
             "Compare the noise with what one record can move: clip, or add more noise."),
        Rule("DPA301", "released-outside", "private data is released outside the noise",
             "Compute what is released from noisy values and public constants alone."),
        Rule("DPA302", "raises", "an error on a neighbour alone shows its record",
             "Treat the record as an honest input: clip it or map it to a declared category."),
        Rule("DPA401", "noise-scale", "the noise is not what the accountant was told",
             "Step the optimizer that make_private returned, and leave its noise as it is."),
        Rule("DPA402", "noise-reused", "one noise protects two values",
             "Draw fresh noise for every value; never create a generator from the same seed."),
        Rule("DPA403", "seed-fixed", "the noise is the same in every run",
             "Do not seed privacy noise."),
        Rule("DPA501", "sampling", "batches are not drawn as they were accounted",
             "Draw every record with an independent coin, or account for what is drawn."),
        Rule("DPA601", "not-finite", "a record that is not finite passes the protection",
             "Write `not norm <= limit` instead of `norm > limit`, or refuse such records."),
    )
}  # fmt: skip
# What comes first is the cause: once data leaks into the state, later queries move too much too.
ORDER = ("DPA403", "DPA401", "DPA104", "DPA101", "DPA102", "DPA103", "DPA501", "DPA301", "DPA302",
         "DPA402", "DPA201", "DPA202", "DPA601")  # fmt: skip

HIDDEN = frozenset({"DPA101", "DPA102", "DPA103", "DPA104", "DPA301", "DPA302"})
"""Rules whose findings do not count where a draw was lost: it may have been the noise."""


@dataclass(frozen=True)
class Broken:
    """An obligation that a pair of executions broke, before it is known whether that counts.

    Attributes:
        rule: the rule.
        site: the line, None where only the output is known.
        text: what was seen, without values of records.
        related: other lines that matter.
        size: of a scale that differs, the log of the factor.

    """

    rule: str
    site: Site | None
    text: str
    related: tuple[Site, ...] = ()
    size: float = math.inf


def calls(now: Tape) -> Iterator[Broken]:
    """DPA101: number, law and line of the primitives are the same on D and D'."""
    assert now.of is not None
    left, right = now.of.chains, now.chains
    for then, here in zip(left, right, strict=False):
        a, b = then[0], here[0]
        if (a.kind, a.law, a.site) != (b.kind, b.law, b.site):
            yield Broken("DPA101", b.site, f"On D' this call stands where D has {_call(a)}.",
                         (a.site,))  # fmt: skip
            return
    if len(left) != len(right):
        longer = left if len(left) > len(right) else right
        first = longer[min(len(left), len(right))][0]
        where = "D" if longer is left else "D'"
        text = f"D has {len(left)} calls and D' has {len(right)}; this one is on {where} alone."
        yield Broken("DPA101", first.site, text)


def _call(entry: Entry) -> str:
    return f"{entry.law} noise at {entry.site}" if entry.kind == "add" else f"one at {entry.site}"


def shapes(now: Tape) -> Iterator[Broken]:
    """DPA103: the noisy values have the same shape; rows of coins follow the records."""
    for then, here in now.pairs():
        aligned = then.kind == "coin" and then.axis is not None
        if then.query.shape != here.query.shape and not aligned:
            text = "The noisy value has one shape on D and another on D'."
            yield Broken("DPA103", here.site, text)
            return


def is_per_record(now: Tape) -> bool:
    """Whether all noisy values that change their shape have one row per record of a batch."""
    assert now.of is not None
    assert now.edit is not None
    sizes = {(now.edit.n, now.edit.n_prime)}
    for then, here in zip(now.of.coins, now.coins, strict=False):
        sizes.add((then.n_in, here.n_in))
    changed = [(a.query.shape, b.query.shape) for a, b in now.pairs() if a.kind != "coin"]
    changed = [(a, b) for a, b in changed if a != b]
    return bool(changed) and all(
        a and b and a[1:] == b[1:] and (a[0], b[0]) in sizes for a, b in changed
    )


def scales(now: Tape) -> Iterator[Broken]:
    """DPA102: the noise has the same scale on D and D', to the last bit."""
    for then, here in now.pairs():
        same_shape = then.scale.shape == here.scale.shape
        if same_shape and not np.array_equal(then.scale, here.scale, equal_nan=True):
            with np.errstate(all="ignore"):
                size = float(np.nanmax(np.abs(np.log(here.scale / then.scale))))
                factor = float(np.exp(size))
            text = f"The scale of the noise on D' differs by a factor of up to {factor:.6g}."
            # The proof of smooth sensitivity that is known here is that of Laplace noise.
            yield Broken(
                "DPA102", here.site, text, size=size if here.law == "laplace" else math.inf
            )
            return


def rates(now: Tape) -> Iterator[Broken]:
    """DPA104: every record is in a batch with the same probability on D and D'."""
    assert now.of is not None
    for then, here in zip(now.of.coins, now.coins, strict=False):
        a, b = (np.unique(coins.rate) for coins in (then, here))
        if a.size == b.size == 1 and a[0] != b[0]:
            text = f"The sampling rate is {a[0]:.6g} on D and {b[0]:.6g} on D'."
            yield Broken("DPA104", here.site, text)
            return


def reuse(bill: Bill) -> Iterator[Broken]:
    """DPA402: values with one noise move alike."""
    for first, second in bill.reused[:1]:
        text = (
            f"The noise of {first.site} is used again here, for a value that moves differently: "
            "the difference of the two shows private data without noise."
        )
        yield Broken("DPA402", second.site, text, (first.site,))


def seeds(first: Tape, second: Tape) -> Iterator[Broken]:
    """DPA403: two runs under different seeds have different noise.

    Draws of few bits, such as one number in single precision, may be equal by chance.
    """
    values = {key for draw in first.draws if (key := _key(first, draw)) is not None}
    for draw in second.draws:
        if _key(second, draw) in values:
            text = "Two runs under different seeds drew the very same noise here."
            site = _site_of(second, draw.number) or draw.site
            yield Broken("DPA403", site, text, (draw.site,))
            return


def _key(tape: Tape, draw: RawDraw) -> tuple[str, bytes] | None:
    value = np.asarray(draw.value)
    known = draw.law in CONTINUOUS and draw.number in tape.followed
    return (draw.law, value.tobytes()) if known and value.any() and is_telling(value) else None


def accounting(tape: Tape) -> Iterator[Broken]:
    """DPA401, DPA501: noise, steps and batches are those that an accountant was told."""
    yield from _noise_of_steps(tape)
    if not tape.told:
        return
    if len(tape.steps) > len(tape.told):
        text = f"{len(tape.steps)} noisy steps were taken; the accountant knows {len(tape.told)}."
        yield Broken("DPA401", tape.steps[-1].site, text)
        return
    for number, (step, told) in enumerate(zip(tape.steps, tape.told, strict=False)):
        stated = told.noise_multiplier * step.max_grad_norm
        scales = [float(np.min(e.scale)) for e in tape.entries if e.step == number and e.scale.size]
        if scales and min(scales) < stated * (1 - 1e-6):
            text = f"The noise has deviation {min(scales):.6g}; the accountant was told {stated:g}."
            yield Broken("DPA401", step.site, text)
            return
    yield from _compare_told_rates(tape)


def _noise_of_steps(tape: Tape) -> Iterator[Broken]:
    """The noise that was seen against the stated scale: the sum of squares is chi-squared."""
    from scipy.stats import chi2

    for steps in (tape.steps, tape.noise_seen):
        squares, size = (sum(getattr(s, name) for s in steps) for name in ("squares", "size"))
        if size and np.isfinite(squares) and chi2.cdf(squares, size) < 1e-9:
            text = (
                f"The noise is narrower than is stated: the sum of its squares is "
                f"{squares / size:.3g} of what it should be ({size} degrees of freedom)."
            )
            yield Broken("DPA401", steps[0].site, text)


def _compare_told_rates(tape: Tape) -> Iterator[Broken]:
    told = max(part.sampling_rate for part in tape.told)
    if told < 1 and not tape.coins:
        yield from sampling(tape, told)
    for coins in tape.coins:
        rate = float(np.max(coins.rate, initial=0.0))
        if coins.n == (tape.n or 0) and rate > told * (1 + 1e-9):
            text = f"Batches are drawn at rate {rate:.6g}; the accountant was told {told:.6g}."
            yield Broken("DPA501", coins.site, text)
            return


def norms(now: Tape, neighbouring: str) -> Iterator[Broken]:
    """DPA201: no step moves by more than the clipping norm that its optimizer states."""
    moved: dict[int, list[tuple[Entry, float]]] = {}
    for then, here in now.pairs():
        if here.step is not None and then.query.shape == here.query.shape and then.kind == "add":
            far = float(np.linalg.norm(here.query - then.query))
            moved.setdefault(here.step, []).append((here, far))
    for number, parts in moved.items():
        if number >= len(now.steps):
            return
        limit = now.steps[number].max_grad_norm * (2 if neighbouring == "replace-one" else 1)
        far = float(np.linalg.norm([far for _, far in parts]))
        largest = max(float(np.max(np.abs(entry.query), initial=0.0)) for entry, _ in parts)
        move, query = rounding_of(parts[0][0])
        if not far <= limit * (1 + move) + query * largest:
            text = f"The sum of gradients moves by {far:.4g}; the clipping norm is {limit:g}."
            yield Broken("DPA201", parts[0][0].site, text)
            return


def sensitivities(now: Tape) -> Iterator[Broken]:
    """DPA201: no query moves by more than the sensitivity that its own call states."""
    for then, here in now.pairs():
        most = here.declared
        if most is None or then.query.shape != here.query.shape:
            continue
        far = _distance(then, here)
        slack = ROUNDING * (1 + float(np.max(np.abs(then.query), initial=0.0)))
        if far is not None and not far <= most * (1 + ROUNDING) + slack:
            text = f"The value moves by {far:.6g}; the call states a sensitivity of {most:g}."
            yield Broken("DPA201", here.site, text)
            return


def _distance(then: Entry, here: Entry) -> float | None:
    if here.stated is not None and then.stated is not None:
        return then.stated.distance(here.stated)
    return float(np.sum(np.abs(here.query - then.query)))


def _site_of(tape: Tape, number: int) -> Site | None:
    return next((entry.site for entry in tape.entries if number in entry.draws), None)


def sampling(tape: Tape, rate: float | None) -> Iterator[Broken]:
    """DPA501: batches that were accounted as Poisson are drawn by one coin per record.

    The number of records drawn is compared with the rate by an exact binomial test at 1e-9.
    """
    if rate is None:
        return
    rows = [coins for coins in tape.coins if coins.n == (tape.n or 0) * coins.rows]
    if not rows:
        for draw in tape.draws:
            if draw.law in SAMPLERS and draw.settings == str(tape.n):
                text = f"The claim is about Poisson sampling; here a {draw.law} is drawn."
                yield Broken("DPA501", draw.site, text)
                return
        return
    from scipy.stats import binomtest

    drawn, coins = sum(row.n_in for row in rows), sum(row.n for row in rows)
    if binomtest(drawn, coins, rate).pvalue < 1e-9:
        text = f"{drawn} of {coins} coins came up, where the accounted rate is {rate:g}."
        yield Broken("DPA501", rows[0].site, text)


def is_played_alike(one: Tape, other: Tape) -> bool:
    """Whether two executions draw noise of the same scales by the same calls, at the same rates."""
    if len(one.entries) != len(other.entries) or len(one.coins) != len(other.coins):
        return False
    same = (
        left.site == right.site and np.array_equal(np.unique(left.scale), np.unique(right.scale))
        for left, right in zip(one.entries, other.entries, strict=True)
    )
    rates = (
        np.array_equal(np.unique(left.rate), np.unique(right.rate))
        for left, right in zip(one.coins, other.coins, strict=True)
    )
    return all(same) and all(rates)


def skips_empty_batches(now: Tape) -> bool:
    """Whether the calls differ because noise is drawn for batches with records alone.

    Both sides draw as many batches at the same rate, and noise for each that is not empty.
    """
    assert now.of is not None
    sides = now.of, now
    if len(now.coins) != len(now.of.coins) or any(row.rows != 1 for t in sides for row in t.coins):
        return False
    for tape in sides:
        full = {i for i, row in enumerate(tape.coins) if row.n_in}
        noisy = {e.sampled for e in tape.entries if e.kind == "add" and e.sampled is not None}
        if noisy != full:
            return False
    return {i for i, row in enumerate(now.of.coins) if row.n_in} != {
        i for i, row in enumerate(now.coins) if row.n_in
    }


def adding_lines(tape: Tape) -> set[Site]:
    """Lines at which noise was added to something."""
    kinds = ("add", "compare")
    return {entry.site for entry in tape.entries if entry.kind in kinds and entry.counts}


def is_in_parts(now: Tape) -> bool:
    """Whether both sides add the same draws to as many values, if in other parts.

    A frame of pandas adds one array of noise to each of its blocks.
    """
    assert now.of is not None
    changed = [a for a, b in now.pairs() if a.query.shape != b.query.shape]
    if any(a.kind != "add" or len(a.draws) != 1 for a in changed):
        return False  # a choice among more candidates, say

    def sizes(tape: Tape) -> tuple[dict[int, int], int]:
        """How many values each draw is added to, and how many calls there are of other kinds."""
        found: dict[int, int] = {}
        others = 0
        for entry in tape.entries:
            if entry.kind == "add" and entry.counts and len(entry.draws) == 1:
                number = min(entry.draws)
                found[number] = found.get(number, 0) + entry.out.size
            else:
                others += 1
        return found, others

    laws = [[(d.law, np.shape(d.value)) for d in tape.draws] for tape in (now, now.of)]
    split = len(now.entries) != len(now.of.entries) or any(
        a.query.shape != b.query.shape for a, b in now.pairs()
    )
    return split and laws[0] == laws[1] and sizes(now) == sizes(now.of)


def is_thresholded(now: Tape, site: Site | None) -> bool:
    """Whether noisy values of a line are compared with a plain number, on D or D'.

    Stability-based histograms draw noise for occupied cells only and publish those above a
    threshold: which calls were made is then hidden, up to a delta.
    """
    for tape in (now, now.of):
        entries = [] if tape is None else tape.entries
        compared = {i for entry in entries if entry.kind == "compare" for i in entry.draws}
        if any(entry.site == site and entry.draws & compared for entry in entries):
            return True
    return False


def public_coins(now: Tape) -> list[Entry]:
    """Coins whose probability is the same on D and D': an answer of theirs may be the protection.

    Whether such a coin draws a batch or randomizes an answer cannot be seen.
    """
    found = []
    for then, here in now.pairs():
        if then.kind == "coin":
            same_shape = then.query.shape == here.query.shape
            if not same_shape or np.array_equal(then.query, here.query):
                found.append(here)
    return found
