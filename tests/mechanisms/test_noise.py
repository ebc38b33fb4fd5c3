"""Sources of noise: which level is chosen, and that keys are fresh and go nowhere."""

import copy
import pickle

import numpy as np
import pytest

from dpassay.errors import InvalidArgument
from dpassay.mechanisms import laplace, noise


@pytest.mark.parametrize(
    ("rng", "size", "level"),
    [
        (None, 1, "exact"),
        (None, noise.EXACT_LIMIT, "exact"),
        (None, noise.EXACT_LIMIT + 1, "cryptographic"),
        (noise.secure_generator(), 1, "cryptographic"),
        (0, 1, "reproducible"),
        (np.random.SeedSequence(3), 10**6, "reproducible"),
        (np.random.default_rng(1), 1, "reproducible"),
    ],
)
def test_level(rng, size, level):
    chosen = noise.source(rng, size)
    assert chosen.level == level
    assert (chosen.generator is None) == (level == "exact")


def test_release_carries_the_level():
    zeros = np.zeros(noise.EXACT_LIMIT + 1)
    assert laplace(zeros, sensitivity=1, epsilon=1).noise == "cryptographic"
    assert laplace(zeros[1:], sensitivity=1, epsilon=1).noise == "exact"
    assert laplace(0.0, sensitivity=1, epsilon=1, rng=5).noise == "reproducible"


@pytest.mark.parametrize("rng", [-1, 0.5, True, "seed", np.random.RandomState(0)])
def test_other_generators_are_refused(rng):
    with pytest.raises(InvalidArgument, match="rng="):
        noise.source(rng, 1)


@pytest.mark.golden
@pytest.mark.parametrize(
    ("key", "stream"),
    [
        # AES-128 of the zero block: RFC 4493, section 4.
        ("2b7e151628aed2a6abf7158809cf4f3c", "7df76b0c1ab899b33e42f047b91b546f"),
        # Of blocks 0 to 3 under the zero key: `openssl enc -aes-128-ecb`, counters with the least
        # byte first. The first is the hash key of test case 1 in McGrew and Viega (GCM).
        (
            "00" * 16,
            "66e94bd4ef8a2c3b884cfa59ca342b2e47711816e91d6ff059bbbf2bf58e0fd3"
            "bcf176a7eaad8085ebacea362462a2814ffc69772ed5a336f4615b4503c34814",
        ),
    ],
)
def test_stream_is_aes_in_counter_mode_under_the_drawn_key(monkeypatch, key, stream):
    asked, drawn = [], int.from_bytes(bytes.fromhex(key), "little")
    monkeypatch.setattr(noise.secrets, "randbits", lambda bits: asked.append(bits) or drawn)
    words = noise.secure_generator().bit_generator.random_raw(len(stream) // 16)
    assert asked == [128]
    assert words.astype("<u8").tobytes().hex() == stream


def test_copies_have_keys_of_their_own():
    first = noise.secure_generator()
    pickled = pickle.dumps(first)
    others = [
        noise.secure_generator(),
        pickle.loads(pickled),
        copy.copy(first),
        copy.deepcopy(first),
        *first.spawn(2),
    ]
    assert all(isinstance(other, noise.SecureGenerator) for other in others)
    draws = {generator.bit_generator.random_raw() for generator in [first, *others]}
    assert len(draws) == 7  # two equal 64-bit words: chance below 2e-18
    assert b"AES" not in pickled  # no state, no key


def test_words_come_from_the_source():
    seeded = [noise.source(9, 4).words(1000) for _ in range(2)]
    assert np.array_equal(*seeded)
    exact = noise.source(None, 4)
    assert not np.array_equal(exact.words(4), exact.words(4))
    assert seeded[0].max() >= 2**63  # all 64 bits: chance of a false alarm 2^-1000
