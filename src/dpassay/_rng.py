"""Generators: integers become generators here and nowhere else."""

import functools

import numpy as np
from numpy.typing import NDArray

from dpassay.errors import InvalidArgument

__all__ = ["RngLike", "first_coins", "for_trial", "generator"]

RngLike = int | np.random.SeedSequence | np.random.Generator | None
"""What is taken wherever randomness is asked for: a seed, a seed sequence, a generator or None."""


def generator(rng: RngLike) -> np.random.Generator:
    """A NumPy generator from a seed, a seed sequence or a generator (returned as it is).

    None gives a generator seeded by the operating system: fine for attacks and sampling, but
    privacy noise has its own sources (:mod:`dpassay.mechanisms`).
    """
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not (
        rng is None or isinstance(rng, int | np.integer | np.random.SeedSequence)
    ):
        raise InvalidArgument(
            f"rng is a {type(rng).__qualname__}; it must be an int, a SeedSequence, a numpy "
            "Generator or None. Pass rng=0 for a reproducible run."
        )
    if isinstance(rng, int | np.integer) and rng < 0:
        raise InvalidArgument(f"rng={rng} must lie in [0, inf). Seeds are not negative.")
    return np.random.default_rng(rng)


def for_trial(seed: int, trial: int, *stream: int) -> np.random.Generator:
    """The generator of one trial: it depends on the seed, the trial's number and the stream alone.

    Not on which worker plays the trial, in what order or in what batch.
    """
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(trial, *stream)))


# ------------------------------------------------------------------------------- many at once

_Words = NDArray[np.uint32]
_Longs = NDArray[np.uint64]
_HASH, _HASH_STEP = 0x43B0D7E5, 0x931E8875  # of the entropy that comes in
_STATE, _STATE_STEP = 0x8B51F9DD, 0x58F38DED  # of the state that goes out
_LEFT, _RIGHT = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_POOL = 4  # words
_STEP = (0x2360ED051FC65DA4, 0x4385DF649FCCF645)  # the multiplier of PCG64
_CHECKED = 16  # trials that are drawn both ways before the fast way is trusted


def first_coins(seed: int, trials: NDArray[np.int64], stream: int) -> NDArray[np.intp]:
    """The first coin of every trial's generator, bit for bit, some thirty times as fast.

    ``for_trial(seed, trial, stream).integers(0, 2)`` for all trials: the hash of a ``SeedSequence``
    and the first step of PCG64 (O'Neill 2014), in arrays. NumPy keeps both as they are, but may
    change how ``integers`` uses a draw. So a few trials are drawn both ways, once per process;
    should they differ, all are drawn one by one.
    """
    low, high = (int(trials.min()), int(trials.max())) if trials.size else (0, 0)
    if trials.size < 2 * _CHECKED or low < 0 or high >= 2**32 or not _is_as_before():
        return np.array([_first_coin(seed, trial, stream) for trial in trials.tolist()], np.intp)
    return _fast_coins(seed, trials, stream)


def _first_coin(seed: int, trial: int, stream: int) -> int:
    return int(for_trial(seed, trial, stream).integers(0, 2, 1)[0])


@functools.lru_cache(maxsize=1)
def _is_as_before() -> bool:
    trials = np.arange(_CHECKED) ** 5
    seed = 2**70 + 12345
    slow = [_first_coin(seed, trial, 1) for trial in trials.tolist()]
    return slow == _fast_coins(seed, trials, 1).tolist()


def _fast_coins(seed: int, trials: NDArray[np.int64], stream: int) -> NDArray[np.intp]:
    state = _seed_states(_seed_words(seed), trials.astype(np.uint32), np.uint32(stream))
    return (_first_draws(*state) >> np.uint64(31) & np.uint64(1)).astype(np.intp)


def _seed_words(seed: int) -> list[int]:
    """The words of a seed, from low to high, at least as many as the pool has."""
    words = [seed >> 32 * i & 0xFFFFFFFF for i in range(-(-seed.bit_length() // 32))]
    return words + [0] * (_POOL - len(words))


def _seed_states(words: list[int], trials: _Words, stream: np.uint32) -> list[_Longs]:
    """Four words of 64 bits for each trial, as ``SeedSequence.generate_state`` gives them."""
    constant = _HASH

    def scramble(value: _Words) -> _Words:
        nonlocal constant
        value = value ^ np.uint32(constant)
        constant = constant * _HASH_STEP & 0xFFFFFFFF
        value = value * np.uint32(constant)
        return value ^ value >> np.uint32(16)

    def mix(x: _Words, y: _Words) -> _Words:
        both = _LEFT * x - _RIGHT * y
        return both ^ both >> np.uint32(16)

    entropy = [np.array([word], np.uint32) for word in words]
    pool = [scramble(word) for word in entropy[:_POOL]]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = mix(pool[target], scramble(pool[source]))
    for word in (*entropy[_POOL:], trials, np.array([stream], np.uint32)):
        pool = [mix(kept, scramble(word)) for kept in pool]
    return _generate_states(pool)


def _generate_states(pool: list[_Words]) -> list[_Longs]:
    constant, words = _STATE, []
    for i in range(2 * _POOL):
        value = pool[i % _POOL] ^ np.uint32(constant)
        constant = constant * _STATE_STEP & 0xFFFFFFFF
        value = value * np.uint32(constant)
        words.append((value ^ value >> np.uint32(16)).astype(np.uint64))
    return [words[i] | words[i + 1] << np.uint64(32) for i in range(0, 2 * _POOL, 2)]


def _first_draws(high: _Longs, low: _Longs, inc_high: _Longs, inc_low: _Longs) -> _Longs:
    """The first 64 bits that PCG64 gives after it was seeded with these words."""
    one = np.uint64(1)
    increment = inc_high << one | inc_low >> np.uint64(63), inc_low << one | one
    state = _add(increment, (high, low))
    for _ in range(2):  # one step ends the seeding, the other one is the draw
        state = _add(_multiply(state), increment)
    high, low = state
    mixed, turn = high ^ low, high >> np.uint64(58)
    return mixed >> turn | mixed << (np.uint64(64) - turn & np.uint64(63))


def _add(a: tuple[_Longs, _Longs], b: tuple[_Longs, _Longs]) -> tuple[_Longs, _Longs]:
    """The sum of numbers of 128 bits, each a high and a low word."""
    low = a[1] + b[1]
    return a[0] + b[0] + (low < a[1]), low


def _multiply(a: tuple[_Longs, _Longs]) -> tuple[_Longs, _Longs]:
    """Numbers of 128 bits times the multiplier of PCG64."""
    high, low = np.uint64(_STEP[0]), np.uint64(_STEP[1])
    return a[0] * low + a[1] * high + _high_word(a[1], low), a[1] * low


def _high_word(a: _Longs, b: np.uint64) -> _Longs:
    """The upper 64 bits of the product of two words, from those of their halves."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_high, a_low, b_high, b_low = a >> half, a & mask, b >> half, b & mask
    middle = a_high * b_low + (a_low * b_low >> half)
    other = a_low * b_high + (middle & mask)
    return a_high * b_high + (middle >> half) + (other >> half)
