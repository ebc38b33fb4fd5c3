"""Sources of noise: which level is chosen, and that keys are fresh and go nowhere."""

import copy
import os
import pickle

import numpy as np
import pytest

from dpassay.errors import InvalidArgument
from dpassay.mechanisms import laplace, noise
from dpassay.privacy import events
from dpassay.types import Release


@pytest.mark.parametrize(
    ("rng", "released", "training"),
    [
        (None, "exact", "cryptographic"),
        (noise.secure_generator(), "exact", "cryptographic"),
        (0, "reproducible", "reproducible"),
        (np.random.SeedSequence(3), "reproducible", "reproducible"),
        (np.random.default_rng(1), "reproducible", "reproducible"),
    ],
)
def test_level(rng, released, training):
    assert noise.source(rng).level == released
    assert noise.training_source(rng).level == training
    assert noise.source(rng).is_exact == (released == "exact")
    assert not noise.training_source(rng).is_exact


@pytest.mark.parametrize("size", [1, 1101, 100_000])
def test_release_carries_the_level(size):
    zeros = np.zeros(size)
    assert laplace(zeros, sensitivity=1, epsilon=1).noise == "exact"
    assert laplace(zeros, sensitivity=1, epsilon=1, rng=5).noise == "reproducible"


def test_floating_point_noise_has_no_event():
    with pytest.raises(InvalidArgument, match=r"event=.* must be None for noise='cryptographic'"):
        Release(0.0, events.Laplace(1.0), 1.0, "cryptographic")
    assert Release(0.0, None, 1.0, "cryptographic").map(abs).event is None


@pytest.mark.parametrize("rng", [-1, 0.5, True, "seed", np.random.RandomState(0)])
def test_other_generators_are_refused(rng):
    with pytest.raises(InvalidArgument, match="rng="):
        noise.source(rng)


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
    others = [
        noise.secure_generator(),
        copy.copy(first),
        copy.deepcopy(first),
        *first.spawn(2),
    ]
    assert all(isinstance(other, noise.SecureGenerator) for other in others)
    draws = {generator.bit_generator.random_raw() for generator in [first, *others]}
    assert len(draws) == 6  # two equal 64-bit words: chance below 2e-18


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_are_refused(protocol):
    with pytest.raises(InvalidArgument, match="must not be pickled"):
        pickle.dumps(noise.secure_generator(), protocol)


def words_of_child(generator):
    """What a forked child draws from the generator."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, generator.bit_generator.random_raw(4).tobytes())
            os.write(write, generator.integers(0, 2**63, 4).tobytes())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        drawn = pipe.read()
    os.waitpid(child, 0)
    return drawn


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_a_forked_process_has_a_key_of_its_own():
    generator = noise.secure_generator()
    generator.random()  # so that there is a state to be copied
    children = [words_of_child(generator) for _ in range(2)]
    own = generator.bit_generator.random_raw(4).tobytes()
    own += generator.integers(0, 2**63, 4).tobytes()
    assert [len(words) for words in children] == [64, 64]
    halves = {words[at : at + 8] for words in [own, *children] for at in range(0, 64, 8)}
    assert len(halves) == 24


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")
def test_a_seeded_generator_is_copied_by_a_fork():
    """The same test sees a generator that is not keyed anew."""
    generator = np.random.default_rng(0)
    assert words_of_child(generator) == words_of_child(generator)


def test_words_come_from_the_source():
    seeded = [noise.source(9).words(1000) for _ in range(2)]
    assert np.array_equal(*seeded)
    exact = noise.source(None)
    assert not np.array_equal(exact.words(4), exact.words(4))
    assert seeded[0].max() >= 2**63  # all 64 bits: chance of a false alarm 2^-1000
