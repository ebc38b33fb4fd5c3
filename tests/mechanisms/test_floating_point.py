"""The lowest bits: floating-point noise gives the input away, lattice noise does not.

NumPy draws Laplace noise as a function L of 53 random bits r, so L has at most 2^53 values; adding
it to x gives at most as many floats out of 2^63: the *image* of x. Whoever sees an output y
inverts L near y - x and looks whether y is in the image. An output for another input seldom is: all
outputs of the value 0 are in the image of 0, and of those of the value 1 one in five, so that an
entry is told with an advantage of .8, whatever epsilon is (Mironov 2012).

A lattice has one image for all inputs, so that the attack sees nothing.
"""

import numpy as np
import pytest

from dpassay.mechanisms import gaussian, laplace, noise
from rates import assert_rate

N = 20_000


def in_image(outputs, x):
    """Whether there is a r with fl(x + L(r 2^-53)) = y, for L of NumPy's Laplace noise of scale 1.

    With u = r 2^-53, L is log(2u) below 1/2 and -log(2 - 2u) above; r is guessed by the inverse of
    L at y - x, and eleven neighbours are tried.
    """
    noise_seen = outputs - x
    tail = np.exp(-np.abs(noise_seen)) / 2
    u = np.where(noise_seen < 0, tail, 1 - tail)
    r = np.rint(u * 2.0**53)
    found = np.zeros(len(outputs), bool)
    for shift in range(-5, 6):
        v = (r + shift) * 2.0**-53
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = np.where(v >= 0.5, 0.0 - np.log(2.0 - v - v), 0.0 + np.log(v + v))
        found |= x + drawn == outputs
    return found


def image_rates(release):
    """How often outputs of 0, and outputs of 1, are in the image of 0; each with its error.

    Taken over outputs between the two, weighted as if they were uniform there: what two Laplace
    laws differ by is no fault, and the image is finer near 0.
    """
    return tuple(_image_rate(release(np.full(N, x)), x) for x in (0.0, 1.0))


def _image_rate(outputs, x):
    y = outputs[(outputs > 0) & (outputs < 1)]
    weights = np.exp(np.abs(y - x))
    # The deviation of a weighted mean of truth values is at most half the root below.
    error = np.sqrt(np.sum(weights**2)) / np.sum(weights) / 2
    return np.average(in_image(y, 0.0), weights=weights), error


def naive(values):
    rng = np.random.default_rng(int(values[0]))
    return values + rng.laplace(size=len(values))


def assert_no_advantage(release):
    """The attack's two rates differ by no more than chance, of 1e-9, explains."""
    (of_zero, error), (of_one, other) = image_rates(release)
    assert abs(of_zero - of_one) < 6.2 * np.hypot(error, other)


def test_floating_point_noise_is_inverted():
    (of_zero, _), (of_one, _) = image_rates(naive)
    assert of_zero > 0.99
    assert of_one < 0.25
    with pytest.raises(AssertionError):
        assert_no_advantage(naive)


@pytest.mark.parametrize("rng", [None, "secure"])
@pytest.mark.parametrize("n_pieces", [1, 20])
def test_lattice_noise_is_not_inverted(rng, n_pieces):
    """In one array, and in pieces that once had another sampler."""

    def release(values):
        generator = noise.secure_generator() if rng == "secure" else None
        made = [
            laplace(piece, sensitivity=1.0, epsilon=1.0, rng=generator)
            for piece in np.split(values, n_pieces)
        ]
        assert {each.noise for each in made} == {"exact"}
        return np.concatenate([each.value for each in made])

    assert_no_advantage(release)


def test_reproducible_noise_is_inverted():
    """Which is why it is not called private."""
    rng = np.random.default_rng(3)
    with pytest.raises(AssertionError):
        assert_no_advantage(
            lambda values: laplace(values, sensitivity=1.0, epsilon=1.0, rng=rng).value
        )


def finest_bit(outputs):
    """The exponent of the lowest bit that is set."""
    mantissa, exponent = np.frexp(outputs)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    return exponent - 53 + np.log2(whole & -whole).astype(np.int64)


@pytest.mark.parametrize(
    ("mechanism", "privacy"), [(laplace, {"epsilon": 1.0}), (gaussian, {"mu": 1.0})]
)
@pytest.mark.parametrize("x", [0.0, 1.0, 1 / 3, 1e6 + 0.1])
def test_outputs_lie_on_one_lattice_for_every_input(mechanism, privacy, x):
    outputs = mechanism(np.full(N, x), sensitivity=1.0, **privacy).value
    assert finest_bit(outputs[outputs != 0]).min() >= -46
    # The lowest bit of the lattice is a fair coin where floats can show it.
    small = outputs[np.abs(outputs) < 64]
    if len(small):
        assert_rate(np.sum(small * 2.0**46 % 2 == 1), len(small), 0.5)


@pytest.mark.parametrize("draw", ["laplace", "normal"])
def test_floating_point_noise_lies_on_no_lattice(draw):
    """So that the test above can fail: outputs of 0 have finer bits than those of 1."""
    rng = np.random.default_rng(8)
    fine = finest_bit(getattr(rng, draw)(size=N))
    coarse = finest_bit(1.0 + getattr(rng, draw)(size=N))
    assert fine.min() < -60
    assert np.mean(fine < -53) > 0.2 > np.mean(coarse < -53) + 0.1
