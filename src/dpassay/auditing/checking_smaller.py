"""A check on fewer records: faults that show on few alone, and the smallest pair of a finding."""

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpassay.auditing.findings import Finding, Pair
from dpassay.privacy import account, events
from dpassay.replay import neighbours as nearby
from dpassay.replay import obligations
from dpassay.replay.neighbours import Neighbour
from dpassay.replay.obligations import ORDER, Broken
from dpassay.replay.playing import Played

if TYPE_CHECKING:
    from dpassay.auditing.checking_session import Seen, Session

_SIZED = frozenset({"DPA201", "DPA202"})
"""Rules that a smaller data set may break in order: a mean of few records moves further."""


def search(session: "Session", first: Played) -> None:
    """Play cut data sets: some faults show only on few records, or at a multiple of a batch size.

    Not where one record is replaced by another: there n is public, and the claim is about n.
    """
    question = session.question
    for size in nearby.smaller_sizes(_n_to_cut(session), first.tape.shown):
        if session.pairs >= question.limit or session.findings:
            return
        if size not in session.cut_to:
            _play(session, first, nearby.take(question.data, range(size)), size)


def find_within(session: "Session", broken: Broken) -> Finding | None:
    """The same fault by a value that occurs, where one that does not has shown it.

    A histogram over declared codes, for example, need not hold another one.
    """
    question = session.question
    for base, neighbour in nearby.without_a_value(question.data, question.neighbouring):
        n = nearby.n_records(base)
        try:
            seen = session.see(session.player.record(base, n), neighbour)
        except Exception:  # a mechanism may refuse so few records
            continue
        same = next((part for part in seen.broken if part.rule == broken.rule), None)
        if same is not None and not session.excuse_of(seen, same):
            how = f"D without the records of one value, and one of them ({neighbour.how})"
            pair = Pair(base, neighbour.data, how)
            return replace(session.finding_of(same, pair, seen), n_records=n)
    return None


def _n_to_cut(session: "Session") -> int:
    """The number of records, 0 where the data must not be cut."""
    question = session.question
    fixed = question.given is not None or question.neighbouring != "add-remove"
    return 0 if fixed else question.n or 0


def search_empty_batches(session: "Session", first: Played) -> None:
    """Play one record, with Poisson batches that are then mostly empty: noise may be skipped."""
    rates = [float(coins.rate.max()) for coins in first.tape.coins if coins.rate.size]
    known = session.findings or session.too_dear_at is not None
    if _n_to_cut(session) > 1 and len(rates) > 1 and max(rates) < 1 and not known:
        _play(session, first, nearby.take(session.question.data, range(1)), 1)


def _play(session: "Session", first: Played, base: Any, size: int) -> None:
    session.cut_to.add(size)
    neighbour = nearby.telling(base, session.question.data, session.question.bounds)
    try:
        cut = session.player.record(base, size)
    except Exception:  # a mechanism may refuse so few records
        return
    seen = session.see(cut, neighbour)
    session.pairs += 1
    broken = next(_find_counting(session, first, cut, seen), None)
    if broken is None or not session.is_steady(cut, seen, broken):
        return
    how = f"D cut to {size} record{'' if size == 1 else 's'}, and one more ({neighbour.how})"
    finding = session.finding_of(broken, Pair(base, neighbour.data, how), seen)
    finding = replace(finding, n_records=size)
    if broken.rule == "DPA101" and seen.skips_empty:  # which n being public does not excuse
        session.findings.append(finding)
    else:
        _take(session, finding, cut, neighbour)


def _find_counting(
    session: "Session", first: Played, cut: Played, seen: "Seen"
) -> Iterator[Broken]:
    """What counts of what broke on a cut data set: nothing that has another reason there.

    To refuse few records is in order. The price is compared only where noise, calls and rates are
    those of D: what was accounted for n records need not hold for two.
    """
    for broken in seen.broken:
        smooth = broken.rule == "DPA102" and session.may_be_smooth(broken)
        excused = seen.per_record or smooth or session.excuse_of(seen, broken)
        if broken.rule == "DPA101" and seen.skips_empty:
            yield replace(broken, text=f"No noise is drawn for an empty batch. {broken.text}")
        elif not (excused or broken.rule == "DPA302"):
            yield broken
    alike = obligations.is_played_alike(first.tape, cut.tape)
    if alike and session.unpriced_sampler(first) is None:
        yield from session.with_price(replace(seen, broken=())).broken


def _take(session: "Session", finding: Finding, cut: Played, neighbour: Neighbour) -> None:
    """A finding if it still shows where n stays what it is; else a warning.

    Many trainings take n as public, and round it to a number of batches.
    """
    still = _rules_at_fixed_n(session, cut, neighbour)
    if still is not None and finding.rule in still - _SIZED:
        session.findings.append(finding)
    elif finding.rule not in {known.rule for known in session.warnings}:
        nor = "" if still is None else ", nor with one record replaced, so that n is fixed"
        text = f"{finding.message} It was not seen on D itself{nor}."
        session.warnings.append(replace(finding, level="warning", message=text))


def _rules_at_fixed_n(session: "Session", cut: Played, neighbour: Neighbour) -> set[str] | None:
    """What breaks where the new record takes the place of another; None where none can be played.

    Where all records of the cut data set are alike, one of D that differs is put beside them.
    """
    record = nearby.record_at(neighbour.data, neighbour.edit.index)
    index = nearby.find_other(cut.data, record, cut.tape.drawn_record)
    if index is None:
        place = nearby.find_other(session.question.data, record)
        if place is None:
            return None
        index = neighbour.edit.n
        larger = nearby.add(cut.data, nearby.record_at(session.question.data, place))
        try:
            cut = session.player.record(larger, index + 1)
        except Exception:  # a mechanism may refuse so few records
            return None
    fixed = nearby.put_in_place(neighbour, cut.data, index)
    return {broken.rule for broken in session.see(cut, fixed).broken}


def shrink(session: "Session") -> None:
    """Replace the pair of the first finding by the smallest one that shows the same rule."""
    session.findings.sort(key=lambda finding: ORDER.index(finding.rule))
    if not session.findings or session.question.given is not None:
        return
    finding = session.findings[0]
    found = next((n for n in _neighbours_of(session, finding)), None)
    if found is None:
        return

    def shows(data: Any, neighbour: Neighbour) -> bool:
        return _shows(session, finding.rule, data, neighbour)

    data, less = nearby.shrink(session.question.data, found, shows, limit=7)
    session.findings[0] = replace(
        finding,
        pair=replace(finding.pair, data=data, data_prime=less.data),
        n_records=nearby.n_records(data),
    )


def _neighbours_of(session: "Session", finding: Finding) -> Iterator[Neighbour]:
    if finding.pair.data_prime is session.question.data:
        return
    for neighbour in session.question.candidates(session.drawn):
        if str(neighbour) == finding.pair.how:
            yield neighbour


def _shows(session: "Session", rule: str, data: Any, neighbour: Neighbour) -> bool:
    try:
        first = session.player.record(data, nearby.n_records(data))
        seen = session.see(first, neighbour)
    except Exception:  # a mechanism may refuse so few records
        return False
    if rule in _SIZED and not _is_played_like_d(session, first):
        return False
    if rule != "DPA202":
        return any(broken.rule == rule for broken in seen.broken)
    delta = session.question.delta
    return session.exceeds(seen, 0.0 if seen.event is None else epsilon_of(seen.event, delta))


def _is_played_like_d(session: "Session", first: Played) -> bool:
    """Whether noise, calls and rates are those of D, about which the claim is."""
    whole = session.whole
    return whole is not None and obligations.is_played_alike(whole, first.tape)


@functools.lru_cache(maxsize=256)
def epsilon_of(event: events.Event, delta: float) -> float:
    """The epsilon of an event, kept: accounting takes time, and many pairs cost the same."""
    return float(account(event).epsilon(delta))
