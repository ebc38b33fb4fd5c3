"""Small mechanisms, honest and broken, that draw as many outputs at once as are asked for.

Each is a function ``mechanism(data, rng, size)`` whose output has ``size`` rows. They are public
test sets of the field, written anew from their descriptions: DP-Sniper (Bichsel et al. 2021) and
StatDP (Ding et al. 2018), with the variants of the sparse vector technique that Lyu, Su and Li
(2017) collected, and the means of DP-Auditorium (Kong et al. 2024). ``EPSILON`` is what those with
a noise scale are told to give; the catalogue says what each really gives.

The inputs of most are the answers of queries, each of which one record moves by at most 1: by
"all" every answer may move, by "one" a single one.
"""

import functools
import math

import numpy as np

from dpassay.types import FloatArray

EPSILON = 0.1
ABORTED = -1.0  # the sparse vector technique has answered often enough
BELOW, STOPPED = -1000.0, -2000.0  # the same, where answers are numbers


def laplace(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """One answer with the right noise."""
    return _with_noise(data, rng, size, 1 / EPSILON)


def laplace_in_parallel(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """The same answer twenty times, each with a twentieth of the budget."""
    return float(np.ravel(data)[0]) + _laplace(rng, 20 / EPSILON, (size, 20))


def truncated_geometric(data: int, rng: np.random.Generator, size: int) -> FloatArray:
    """A count from 0 to 5 by the geometric sampler in integers (Balcer and Vadhan 2018).

    Its parameter k = ceil(log(2/epsilon)) gives log(1 + 2^-k), not the epsilon that was asked for.
    """
    steps = _geometric_steps(int(data), math.ceil(math.log(2 / EPSILON)), 5)
    return np.searchsorted(steps, rng.integers(1, steps[-1] + 1, size)).astype(float)


def _geometric_steps(count: int, k: int, n: int) -> FloatArray:
    """The numerators of the distribution function at 0 to n."""
    base = 2**k + 1
    whole = (2 ** (k + 1) + 1) * base ** (n - 1)
    below = [2 ** (k * (count - z)) * base ** (n - count + z) for z in range(count)]
    above = [
        whole - 2 ** (k * (z - count + 1)) * base ** (n - 1 - z + count) for z in range(count, n)
    ]
    return np.array([*below, *above, whole])


def histogram(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Five counts with the right noise."""
    return _with_noise(data, rng, size, 1 / EPSILON)


def histogram_inverted_scale(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Five counts with noise of scale epsilon instead of 1/epsilon."""
    return _with_noise(data, rng, size, EPSILON)


def histogram_of_occupied_bins(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Counts with the right noise, but none where a bin is empty."""
    counts = np.asarray(data, float)
    return np.where(counts > 0, _with_noise(counts, rng, size, 1.0), 0.0)


def _with_noise(data: FloatArray, rng: np.random.Generator, size: int, scale: float) -> FloatArray:
    answers = np.atleast_1d(np.asarray(data, float))
    noisy = _laplace(rng, scale, (size, answers.size))
    noisy += answers
    return noisy


def _laplace(rng: np.random.Generator, scale: float, shape: tuple[int, ...]) -> FloatArray:
    """Laplace noise as an exponential with a fair sign: half the time of ``rng.laplace``."""
    noise = rng.standard_exponential(shape)
    noise *= scale
    signs = rng.random(shape, dtype=np.float32)
    signs -= np.float32(0.5)  # 2^-24 steps: 0.0 itself counts as positive, as many as are negative
    return np.copysign(noise, signs, out=noise)


def noisy_argmax_laplace(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Report noisy max: which answer is the largest after Laplace noise."""
    return _with_noise(data, rng, size, 2 / EPSILON).argmax(axis=1).astype(float)


def noisy_argmax_exponential(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Report noisy max with exponential noise (permute-and-flip)."""
    return _with_exponential(data, rng, size).argmax(axis=1).astype(float)


def noisy_argmax_gumbel(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Report noisy max with Gumbel noise, which is the exponential mechanism."""
    answers = np.asarray(data, float)
    noisy = answers + rng.gumbel(scale=2 / EPSILON, size=(size, answers.size))
    return noisy.argmax(axis=1).astype(float)


def noisy_max_laplace(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Releases the largest noisy answer itself, not which it is."""
    return _with_noise(data, rng, size, 2 / EPSILON).max(axis=1)


def noisy_max_exponential(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Releases the largest answer after exponential noise: never below the true maximum."""
    return _with_exponential(data, rng, size).max(axis=1)


def _with_exponential(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    answers = np.asarray(data, float)
    return answers + rng.exponential(scale=2 / EPSILON, size=(size, answers.size))


# The sparse vector technique: which answers are above a noisy threshold, in order, until so many
# were. Each variant is one of Lyu, Su and Li (2017), by number.


def sparse_vector_1(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Algorithm 1: noise in the threshold and in every answer; stops after one above it."""
    return _flags(_ask(data, rng, size, 2 / EPSILON, 4 / EPSILON, threshold=0.5))


def sparse_vector_2(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Algorithm 2: as 1, but the threshold's noise is drawn anew after an answer above it.

    With one answer above the threshold nothing follows the new draw.
    """
    return _flags(_ask(data, rng, size, 2 / EPSILON, 4 / EPSILON))


def sparse_vector_3(
    data: FloatArray, rng: np.random.Generator, size: int, most: int = 1
) -> FloatArray:
    """Algorithm 3: releases the noisy answer that was above the threshold, with its noise."""
    return _ask(data, rng, size, 2 / EPSILON, 2 * most / EPSILON, most)


def sparse_vector_4(
    data: FloatArray, rng: np.random.Generator, size: int, most: int = 1
) -> FloatArray:
    """Algorithm 4: the answers' noise does not grow with how many may be above."""
    return _flags(_ask(data, rng, size, 4 / EPSILON, 4 / (3 * EPSILON), most))


def sparse_vector_5(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Algorithm 5: no noise in the answers, and no end."""
    return _above(data, rng, size, 2 / EPSILON, 0.0).astype(float)


def sparse_vector_6(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Algorithm 6: noise in both, but no end."""
    return _above(data, rng, size, 2 / EPSILON, 2 / EPSILON).astype(float)


def sparse_vector_numerical(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """An answer above the threshold is released with noise of its own; at most two."""
    answers = np.asarray(data, float)
    shown = _ask(answers, rng, size, 3 / EPSILON, 12 / EPSILON, most=2)
    row, place = np.nonzero((shown != BELOW) & (shown != STOPPED))
    released = answers[place] + _laplace(rng, 6 / EPSILON, place.shape)
    shown = np.where(shown == STOPPED, BELOW, 0.0)
    shown[row, place] = released
    return shown


def sparse_vectors_in_parallel(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Algorithms 3 and 4, each with up to two answers above, side by side."""
    return np.hstack(
        [sparse_vector_3(data, rng, size, most=2), sparse_vector_4(data, rng, size, most=2)]
    )


def _above(
    data: FloatArray,
    rng: np.random.Generator,
    size: int,
    threshold_scale: float,
    answer_scale: float,
) -> FloatArray:
    limits = 1.0 + _laplace(rng, threshold_scale, (size, 1))
    return _with_noise(data, rng, size, answer_scale) >= limits


def _ask(
    data: FloatArray,
    rng: np.random.Generator,
    size: int,
    threshold_scale: float,
    answer_scale: float,
    most: int = 1,
    threshold: float = 1.0,
) -> FloatArray:
    """Noisy answers above a noisy threshold, BELOW for others, STOPPED once ``most`` were above.

    Noise is drawn only for answers that are asked for: most outputs stop early.
    """
    answers = np.asarray(data, float)
    shown = np.full((size, answers.size), STOPPED)
    limits = threshold + _laplace(rng, threshold_scale, (size,))
    asked, left = np.arange(size), np.full(size, most, np.int8)
    for place, answer in enumerate(answers.tolist()):
        noisy = answer + _laplace(rng, answer_scale, limits.shape)
        above = noisy >= limits
        shown[asked, place] = np.where(above, noisy, BELOW)
        left -= above
        go_on = left > 0
        asked, left, limits = asked[go_on], left[go_on], limits[go_on]
    return shown


def _flags(shown: FloatArray) -> FloatArray:
    """1 above the threshold, 0 below it, ABORTED after the end."""
    return np.where(shown == STOPPED, ABORTED, (shown != BELOW).astype(float))


# RAPPOR: a Bloom filter whose bits are answered at random (Erlingsson, Pihur, Korolova 2014).

FILTER_SIZE, N_HASHES = 20, 4


def rappor(data: int, rng: np.random.Generator, size: int) -> FloatArray:
    """Permanent and instantaneous answers: a set bit is reported with .5125, another with .4875."""
    keep, high, low = 0.25, 0.55, 0.45
    bits = bloom_filter(int(data))
    permanent = (1 - keep) / 2 + keep * bits
    return _bits(permanent * high + (1 - permanent) * low, rng, size)


def rappor_once(data: int, rng: np.random.Generator, size: int) -> FloatArray:
    """The permanent answers alone: a set bit is reported with .525, another with .475."""
    return _bits(0.475 + 0.05 * bloom_filter(int(data)), rng, size)


def _bits(probabilities: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    return (rng.random((size, FILTER_SIZE)) < probabilities).astype(float)


@functools.lru_cache(maxsize=256)
def bloom_filter(value: int) -> FloatArray:
    """Which of 20 bits are set for a whole number, by four hashes of its digits."""
    bits = np.zeros(FILTER_SIZE)
    for seed in range(N_HASHES):
        bits[murmur3(str(value).encode(), seed) % FILTER_SIZE] = 1.0
    bits.setflags(write=False)
    return bits


def murmur3(key: bytes, seed: int) -> int:
    """The signed 32-bit MurmurHash3 of a key (Appleby 2011)."""
    whole = 0xFFFFFFFF

    def turn(x: int, bits: int) -> int:
        return ((x << bits) | (x >> (32 - bits))) & whole

    def scramble(block: int) -> int:
        return turn(block * 0xCC9E2D51 & whole, 15) * 0x1B873593 & whole

    state, full = seed, len(key) // 4 * 4
    for start in range(0, full, 4):
        state ^= scramble(int.from_bytes(key[start : start + 4], "little"))
        state = (turn(state, 13) * 5 + 0xE6546B64) & whole
    if key[full:]:
        state ^= scramble(int.from_bytes(key[full:], "little"))
    state ^= len(key)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        state = (state ^ state >> shift) * factor & whole
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def prefix_sums(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """Running sums of the noisy answers: the noise of one answer, whatever moved."""
    return np.cumsum(_with_noise(data, rng, size, 1 / EPSILON), axis=1)


# Means of records from 0 to 1, where a neighbour has one record more or less.


def private_mean(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """The noisy sum by the noisy count, half of the budget each."""
    counts = len(data) + rng.laplace(scale=2 / EPSILON, size=size)
    sums = float(np.sum(data)) + rng.laplace(scale=2 / EPSILON, size=size)
    return sums / np.maximum(counts, 1.0)


def mean_with_true_counts(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """The mean by the true count, with noise scaled to the true count."""
    count = max(len(data), 1)
    return float(np.mean(data)) + rng.laplace(scale=1 / (count * EPSILON), size=size)


def mean_with_noised_scale(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """The mean by the true count, with noise scaled to a noisy one."""
    counts = np.maximum(len(data) + rng.laplace(scale=2 / EPSILON, size=size), 1.0)
    return float(np.mean(data)) + rng.laplace(size=size) * 2 / (counts * EPSILON)


# One step of gradient descent, where a neighbour has one record replaced.

STEP_NOISE = 10.0  # deviations of the noise, in clipping norms


def one_gradient_step(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """The sum of gradients clipped to norm 1, with Gaussian noise: GDP with mu = 2 / STEP_NOISE.

    A record is a row of features with its label at the end; the loss is squared, the model still 0.
    Another record in the place of one moves the sum by up to two clipping norms.
    """
    gradients = -data[:, -1:] * data[:, :-1]
    lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
    total = (gradients / np.maximum(lengths, 1.0)).sum(axis=0)
    return total + STEP_NOISE * rng.standard_normal((size, total.size))


# Floating point: the value is as private as it claims to be, its last bits are not.


def laplace_by_inversion(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """The textbook Laplace draw in double precision, whose reachable values depend on the input.

    Mironov (2012): a logarithm of few bits is added to the answer, so that some outputs can come
    from one of two answers only.
    """
    signs = rng.integers(0, 2, size) * 2 - 1
    return float(np.ravel(data)[0]) - signs * np.log(rng.random(size)) / EPSILON


def snapping(data: FloatArray, rng: np.random.Generator, size: int) -> FloatArray:
    """The snapping mechanism (Mironov 2012): the same draw, rounded to a coarse grid."""
    bound = 100.0
    scale = (1 + bound * 2.0**-49) / EPSILON
    grid = 2.0 ** math.ceil(math.log2(scale))
    signs = rng.integers(0, 2, size) * 2 - 1
    noisy = np.clip(np.ravel(data)[0], -bound, bound) + signs * scale * np.log(1 - rng.random(size))
    return np.clip(np.rint(noisy / grid) * grid, -bound, bound)
