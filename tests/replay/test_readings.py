"""Draws that may be public, values that are not published, and other readings of honest code."""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest

import dpassay as da
from dpassay.auditing.replayed import audit_by_replay
from dpassay.errors import AuditStopped

DATA = np.linspace(0, 1, 20)
ROWS = np.random.default_rng(0).normal(size=(20, 2))


def shorten(rows):
    return rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))


def random_start(noise):
    def release(x, rng):
        start = rng.normal(size=2)
        return start, shorten(x - start).sum(axis=0) + noise * rng.normal(size=2)

    return release


def fixed_start(noise):
    def release(x, rng):
        start = np.random.default_rng(0).normal(size=2)
        return shorten(x - start).sum(axis=0) + noise * rng.normal(size=2)

    return release


@pytest.mark.parametrize("make", [random_start, fixed_start])
def test_a_draw_that_meets_data_before_the_noise_is_public(make):
    claim = da.GDP(1.0, neighbouring="replace-one")
    honest = da.check(make(2.0), ROWS, claim, limit=8)
    assert honest.findings == ()
    assert honest.decided
    assert da.check(make(0.5), ROWS, claim, limit=8).findings


def shares(x, rng):
    return (np.clip(x, 0, 1) + rng.normal(0, 1 / math.sqrt(len(x)), len(x))).sum()


def hidden_subtotal(x, rng):
    subtotal = np.round(len(x) + rng.normal(0, 0.1))
    return subtotal + rng.laplace()


@pytest.mark.parametrize(
    ("release", "claim"),
    [(shares, da.GDP(1.0, neighbouring="replace-one")), (hidden_subtotal, da.PureDP(1.0))],
)
def test_noisy_values_that_are_not_published_break_and_refute_nothing(release, claim):
    found = da.check(release, DATA, claim, bounds=(0, 1), limit=6)
    assert found.findings == ()
    assert not found.decided
    other = DATA[1:] if claim.neighbouring == "add-remove" else np.append(0.9, DATA[1:])
    with pytest.raises(AuditStopped, match="not published"):
        audit_by_replay(release, (DATA, other), claim=claim, trials=5)


def test_a_schedule_of_noise_is_priced_step_by_step():
    def train(x, rng):
        w = 0.0
        for step in range(4):
            batch = x[rng.random(len(x)) < 0.2]
            w += 0.1 * (np.clip(batch - w, -1, 1).sum() + rng.normal(0, 1.0 if step < 2 else 0.8))
        return w

    found = da.check(train, DATA, da.dp_sgd_event(0.8, 0.2, 4), limit=3)
    counts = {part.event.event.noise_multiplier: part.count for part in found.event.events}
    assert counts == pytest.approx({1.0: 2, 0.8: 2})


def test_rare_categories_are_varied():
    regions = ["a"] * 12
    regions[7] = "b"
    frame = pd.DataFrame({"region": regions, "value": range(12)})

    def sizes(frame, rng):
        found = frame.groupby("region").size()
        return found + rng.laplace(size=len(found))

    def declared(frame, rng):
        found = frame.groupby("region").size().reindex(["a", "b"], fill_value=0)
        return found + rng.laplace(size=2)

    assert da.check(sizes, frame, "1").findings[0].rule == "DPA103"
    assert da.check(declared, frame, "1").findings == ()

    def kept(words, rng):
        return {w: n + rng.laplace() for w, n in sorted(Counter(words).items()) if n > 1}

    assert da.check(kept, ["the"] * 5 + ["zeugma"], "1").findings[0].rule == "DPA101"


@pytest.mark.parametrize("data", [[{1, 2}, {3}], [[1, 2], [3]]])
def test_records_of_other_kinds(data):
    assert da.check(lambda x, rng: len(x) + rng.laplace(), data, "1").decided


def test_a_choice_for_every_record_is_not_priced():
    def release(x, rng):
        taken = rng.choice([True, False], size=len(x), p=[0.1, 0.9])
        return np.clip(x[taken], 0, 1).sum() + rng.laplace(scale=0.5)

    assert da.check(release, DATA, "1", limit=4).findings == ()
