import json
import math

import numpy as np
import pytest

from dpassay.errors import InvalidArgument, UnsupportedEvent
from dpassay.privacy import account, events
from dpassay.privacy.events import (
    Approx,
    BoundedRange,
    Gaussian,
    Laplace,
    NonPrivate,
    Pure,
    RandomizedResponse,
    Repeated,
    Sampled,
    Sequence,
    ZeroConcentrated,
    dp_sgd_event,
    from_dict,
)
from dpassay.privacy.events.words import in_words, relation_in_words
from dpassay.privacy.translation import from_dp_accounting, to_dp_accounting

TRANSLATED = [
    Gaussian(1.1),
    Laplace(2.0),
    ZeroConcentrated(0.1),
    NonPrivate(),
    Repeated(Sampled(Gaussian(1.1), 0.01), 1000),
    Sequence((Gaussian(1.0), Repeated(Laplace(3.0), 4))),
]


@pytest.mark.parametrize("event", TRANSLATED)
def test_translation_there_and_back(event):
    assert from_dp_accounting(to_dp_accounting(event)) == event


def test_randomized_response_is_replace_one():
    event = RandomizedResponse(0.3, 5)
    assert from_dp_accounting(to_dp_accounting(event)) == event
    assert event.neighbouring == "replace-one"
    with pytest.raises(InvalidArgument, match="replace-one"):
        RandomizedResponse(0.3, 5, "add-remove")


@pytest.mark.parametrize("event", [Pure(1.0), Approx(1.0, 1e-5), BoundedRange(1.0)])
def test_words_that_dp_accounting_lacks_are_named(event):
    with pytest.raises(UnsupportedEvent, match=type(event).__name__):
        to_dp_accounting(Repeated(event, 3))


def test_foreign_events_are_checked():
    import dp_accounting as dpa

    with pytest.raises(InvalidArgument, match="noise_multiplier"):
        from_dp_accounting(dpa.GaussianDpEvent(-1.0))
    with pytest.raises(InvalidArgument, match="noise_multiplier"):
        from_dp_accounting(dpa.GaussianDpEvent(float("nan")))
    with pytest.raises(UnsupportedEvent):
        from_dp_accounting(dpa.UnsupportedDpEvent())


def test_dp_sgd_event():
    event = dp_sgd_event(noise_multiplier=1.1, sampling_rate=0.01, steps=1000)
    assert event == Repeated(Sampled(Gaussian(1.1), 0.01), 1000)
    assert dp_sgd_event(1.1, 1.0, 5) == Repeated(Gaussian(1.1), 5)
    assert dp_sgd_event(1.1, 0.1, 5, neighbouring="replace-one").neighbouring == "replace-one"


def test_relations_do_not_mix():
    with pytest.raises(InvalidArgument, match="mix"):
        Sequence((Gaussian(1.0), RandomizedResponse(0.5)))


def test_sampling_without_replacement_needs_replace_one():
    with pytest.raises(InvalidArgument, match="replace-one"):
        Sampled(Gaussian(1.0), 0.1, "without-replacement")


BAD = [
    (lambda v: Gaussian(v), "noise_multiplier", [0, -1, np.nan, np.inf, "x", None]),
    (lambda v: Laplace(v), "noise_multiplier", [0, -1, np.nan, np.inf]),
    (lambda v: Pure(v), "epsilon", [-1, np.nan, np.inf]),
    (lambda v: BoundedRange(v), "epsilon", [-1, np.nan]),
    (lambda v: Approx(v, 0.1), "epsilon", [-1, np.nan]),
    (lambda v: Approx(1.0, v), "delta", [-1e-9, 1, 2, np.nan]),
    (lambda v: ZeroConcentrated(v), "rho", [-1, np.nan, np.inf]),
    (lambda v: RandomizedResponse(v), "noise_probability", [0, -0.1, 1.1, np.nan]),
    (lambda v: RandomizedResponse(0.5, v), "n_categories", [1, 0, 2.5, np.nan]),
    (lambda v: Sampled(Gaussian(1.0), v), "sampling_rate", [0, -0.1, 1.2, np.nan]),
    (lambda v: Sampled(Gaussian(1.0), 0.1, v), "scheme", ["shuffled", None]),
    (lambda v: Sampled(v, 0.1), "event", ["noise", None]),
    (lambda v: Repeated(Gaussian(1.0), v), "count", [0, -1, 1.5, np.nan, True]),
    (lambda v: Sequence(v), "events", [()]),
    (lambda v: Sequence((Gaussian(1.0), v)), r"events\[1\]", [3]),
    (lambda v: Gaussian(1.0, v), "neighbouring", ["swap", None]),
    (lambda v: dp_sgd_event(1.0, 0.1, v), "steps", [0, -5, 2.5]),
    (lambda v: dp_sgd_event(1.0, v, 10), "sampling_rate", [0, 1.2, np.nan]),
]


@pytest.mark.parametrize(("make", "name", "value"), [(m, n, v) for m, n, vs in BAD for v in vs])
def test_bad_values_are_named(make, name, value):
    with pytest.raises(InvalidArgument, match=name):
        make(value)


def test_every_kind_is_frozen():
    with pytest.raises(AttributeError):
        events.Gaussian(1.0).noise_multiplier = 2.0


WRITTEN = [
    *TRANSLATED,
    Pure(0.1 + 0.2, "replace-one"),
    Approx(0.5, 1e-7),
    BoundedRange(1.5),
    RandomizedResponse(0.3, 5),
    events.Selected(Gaussian(4.0), 10.0, "negative-binomial", 1.0),
    Repeated(Sampled(Gaussian(1 / 3, "replace-one"), 0.25, "without-replacement"), 7),
]


@pytest.mark.parametrize("event", WRITTEN)
def test_written_and_read_back(event):
    assert from_dict(json.loads(json.dumps(event.as_dict()))) == event


def test_every_kind_of_event_can_be_written():
    kinds = {
        kind
        for kind in vars(events).values()
        if isinstance(kind, type) and issubclass(kind, events.Event)
    }
    assert kinds - {events.Event} == set(events._KINDS)


def test_reading_checks_as_making_does():
    with pytest.raises(UnsupportedEvent, match="'Magic'"):
        from_dict({"kind": "Magic"})
    with pytest.raises(InvalidArgument, match="noise_multiplier"):
        from_dict({"kind": "Gaussian", "noise_multiplier": -1.0})


def test_as_many_steps_as_the_accountants_take():
    assert events.dp_sgd_event(1.0, 1e-8, 10**16).count == 10**16
    with pytest.raises(InvalidArgument, match="count="):
        events.Repeated(events.Gaussian(1.0), 10**19)


def test_a_tree_is_a_matrix_mechanism():
    """A record in one leaf of 1000 is in 11 nodes; trees of one record each count once."""
    dpa = pytest.importorskip("dp_accounting")
    tree = from_dp_accounting(dpa.SingleEpochTreeAggregationDpEvent(2.0, [1000, 3]))
    assert tree.noise_multiplier == 2.0
    assert 11**0.5 <= tree.sensitivity <= 11**0.5 * (1 + 1e-15)


def test_mixtures_of_gaussians_are_priced_anew():
    """dp-accounting says .0141311 for this one, below the truth."""
    dpa = pytest.importorskip("dp_accounting")
    mixture = dpa.dp_event.MixtureOfGaussiansDpEvent
    law = [math.comb(4, j) * 0.05**j * 0.95 ** (4 - j) for j in range(5)]
    event = from_dp_accounting(mixture(6.0, [0.0, 3.0, 6.0, 9.0, 12.0], law))
    assert event == events.SampledUser(math.nextafter(2.0, 0.0), tuple(law))
    price = account(mixture(2.0, [0, 1, 2, 3, 4], law)).delta(0.1)
    assert 0.0141460044557 <= price <= 0.01416
    for moves in ([0, 1, 1.5], [0, 0, 0], [0, 1, 2000], [0, -1, 1], [math.nan, 1, 2]):
        with pytest.raises(UnsupportedEvent, match="multiples of the least one"):
            account(mixture(2.0, moves, [0.5, 0.3, 0.2]))


def test_every_event_has_words():
    """On one line, as reports and the command line print it."""
    both = events.Sequence((events.Gaussian(1.0), events.Laplace(2.0)))
    said = {
        events.allocation_event(1.0, 100, 10): "10 × Gaussian(noise_multiplier=1) on 100 batches, "
        "each record in 1 of them at random",
        events.shuffled_event(1.0, 9): "1 × Gaussian(noise_multiplier=1) on 9 shuffled or fixed "
        "batches",
        both: "Gaussian(noise_multiplier=1), then Laplace(noise_multiplier=2)",
        events.Selected(events.Gaussian(1.0), 10.0): "the best of about 10 runs of "
        "Gaussian(noise_multiplier=1)",
        events.MatrixMechanism(3.0, 1.5): "MatrixMechanism(noise_multiplier=3, sensitivity=1.5)",
        events.sample_group(1.0, 0.5, 2): "Gaussian(noise_multiplier=1) on batches with up to 2 "
        "records of a user",
    }
    assert {event: in_words(event) for event in said} == said
    assert all("added or removed" in relation_in_words(event) for event in said)
