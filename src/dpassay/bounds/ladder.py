"""Bets against the members of a family of claims, from the smallest on."""

import functools
import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dpassay._special.margins import ARITHMETIC, down
from dpassay._special.search import last_true
from dpassay.bounds.betting import FORMS, FormName, Lines, dearer
from dpassay.bounds.families import Family
from dpassay.bounds.watch import Shares, Watch
from dpassay.bounds.wealth import Book
from dpassay.types import FloatArray

_GROUP = 8  # members that are bet against together


class Ladder:
    """Bets against the members of a family, group by group from the smallest on.

    A bound needs only the members below the first that stands, so a group is played when all
    members before it have fallen, and then from the first trial on. Its bets are the same, bit for
    bit, as if it had been played all the time.
    """

    def __init__(self, family: Family, form: FormName, confidence: float, shares: Shares) -> None:
        self.family, self.confidence = family, confidence
        self.form: FormName = form
        self._shares = shares
        self._parts: list[NDArray[np.intp]] = []
        self._watches: list[Watch] = []
        self._seen: list[int] = []  # how many of the parts each group has been played on

    def take(self, streams: NDArray[np.intp]) -> None:
        """Take outcomes of the next rounds, a row for each stream."""
        self._parts.append(streams)

    def group(self, number: int) -> Watch:
        """The bets against one group of members, after all rounds so far."""
        while number >= len(self._watches):
            book = _group_book(self.family, self.form, len(self._watches) * _GROUP)
            self._watches.append(Watch(book, self.confidence, rest=True, shares=self._shares))
            self._seen.append(0)
        watch, new = self._watches[number], self._parts[self._seen[number] :]
        if new:
            watch.take(np.concatenate(new, axis=1), 0)
            self._seen[number] = len(self._parts)
        return watch

    def groups(self) -> Iterator[Watch]:
        """All groups, each played when it is asked for."""
        return map(self.group, range(math.ceil(len(self.family.curves) / _GROUP)))

    def n_refuted(self) -> int:
        """The number of members, from the smallest on, that were all refuted."""
        leading = 0
        for watch in self.groups():
            fallen = watch.refuted_at > 0
            leading += int(np.logical_and.accumulate(fallen).sum())
            if not fallen.all():
                break
        return leading

    def all_refuted_at(self, n: int) -> int | None:
        """After how many trials the n smallest members had all fallen; None if one stands."""
        if self.n_refuted() < n:
            return None
        fell = [self.group(number).refuted_at for number in range(math.ceil(n / _GROUP))]
        return int(np.concatenate(fell)[:n].max())

    def epsilon(self) -> float:
        """The largest epsilon at and below which everything is refuted; 0 if nothing is."""
        last = self.n_refuted() - 1
        if last < 0:
            return 0.0
        watch, place = self.group(last // _GROUP), last % _GROUP
        return move_up(self.family, last, watch.book.pays[place], float(watch.surplus[place]))


@functools.lru_cache(maxsize=16)
def _family_lines(family: Family) -> tuple[Lines, ...]:
    return tuple(Lines.of(curve) for curve in family.curves)


@functools.lru_cache(maxsize=128)
def _group_book(family: Family, form: FormName, first: int) -> Book:
    """The book on one group of members, which takes a while to prepare and does not change."""
    lines = _family_lines(family)
    # As many assets as any member has: a portfolio then does not depend on how members are grouped.
    n_assets = max(line.pays.shape[1] for line in lines)
    return Book.on(lines[first : first + _GROUP], FORMS[form], n_assets)


def move_up(family: Family, last: int, pays: FloatArray, surplus: float) -> float:
    """The largest epsilon up to the next member that the surplus per trial pays for, from below.

    It is above the refuted member's own epsilon, by one float at least, so that "refuted" and "the
    bound is above it" are one statement. That float is paid for: every bet is priced ``ARITHMETIC``
    too high (``Lines``), which is a thousand times what e^epsilon gains in one float.
    """
    member = family.member
    if member is None:
        return family.epsilons[last]
    start = math.nextafter(family.epsilons[last], math.inf)
    if not surplus > 2 * ARITHMETIC:  # the least that a step costs, see ``dearer``
        return start
    low = family.parameters[last]
    high = family.parameters[last + 1] if last + 1 < len(family.parameters) else 2 * low or 1.0

    def is_paid(parameter: float) -> bool:
        return dearer(pays, member(float(parameter))) <= surplus

    most = float(last_true(is_paid, low, high, most=30, even=True))
    return max(start, down(float(member(most).epsilon(family.delta)), ARITHMETIC))
