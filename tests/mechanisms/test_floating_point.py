"""The lowest bits: floating-point noise gives the input away, lattice noise does not.

NumPy draws Laplace noise as a function L of 53 random bits r, so L has at most 2^53 values; adding
it to x gives at most as many floats out of 2^63: the *image* of x. Whoever sees an output y
inverts L near y - x and looks whether y is in the image. An output for another input seldom is: of
outputs with value 0, 99.5 % are in the image of 0, and of those with value 1 one in five. The two
differ by far more than any epsilon allows. (Mironov 2012; it is all that the old noise of large
arrays took.) A Gaussian draw of NumPy is a 52-bit integer times one of 256 constants, which is
inverted the same way.

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


def advantage(release):
    """How much more often outputs of 0 are in the image of 0 than outputs of 1."""
    zeros, ones = release(np.zeros(N)), release(np.ones(N))
    # On outputs between the inputs, where both laws have one density.
    return tuple(in_image(y[(y > 0) & (y < 1)], 0.0) for y in (zeros, ones))


def naive(values):
    rng = np.random.default_rng(int(values[0]))
    return values + rng.laplace(size=len(values))


def assert_same_rate(first, second):
    """Two rates differ by no more than chance, of 1e-9, explains."""
    pooled = np.concatenate([first, second]).mean()
    for seen in (first, second):
        limit = 6.2 * np.sqrt(max(pooled * (1 - pooled), 1 / len(seen)) / len(seen))
        assert abs(seen.mean() - pooled) < limit


def test_floating_point_noise_is_inverted():
    of_zero, of_one = advantage(naive)
    assert of_zero.mean() > 0.95
    assert of_one.mean() < 0.6
    with pytest.raises(AssertionError):
        assert_same_rate(of_zero, of_one)


@pytest.mark.parametrize("rng", [None, "secure"])
def test_lattice_noise_is_not_inverted(rng):
    def release(values):
        generator = noise.secure_generator() if rng == "secure" else None
        made = laplace(values, sensitivity=1.0, epsilon=1.0, rng=generator)
        assert made.noise == "exact"
        return made.value

    assert_same_rate(*advantage(release))


def test_reproducible_noise_is_inverted():
    """Which is why it is not called private."""
    of_zero, of_one = advantage(
        lambda values: (
            laplace(values, sensitivity=1.0, epsilon=1.0, rng=np.random.default_rng(3)).value
        )
    )
    assert of_zero.mean() - of_one.mean() > 0.4


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
