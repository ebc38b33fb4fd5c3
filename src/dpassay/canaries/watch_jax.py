"""A watch for JAX: a gradient transformation of the form that optax chains.

Put it behind the noise and before the step::

    watch = dpassay.canaries.watch_gradients(noise_multiplier=1.1, sampling_rate=0.01, clip=1.0,
                                             divisor=256)
    optimizer = optax.chain(noise, watch, optax.adam(1e-3))
    ...                                                 # the loop as it is, jitted or not
    print(watch.judge(state, delta=1e-5))               # the optimizer's last state

Coins, sums and the key of its draws are part of the optimizer's state, so that checkpoints hold
them. Where several devices share the data, it belongs behind the mean over devices: each then adds
the same canaries to the same noisy gradient. Scores are those of the released gradients alone,
unless the clipped gradients without noise are handed over, divided as the noisy ones are:
``optimizer.update(clipped, state, params, data=clipped)`` of a chain in which the noise comes
before the watch, or ``watch.update(noisy, state, data=clipped)``. Then they see more.
"""

from typing import Any, NamedTuple

import numpy as np

from dpassay import _check
from dpassay._rng import RngLike, generator
from dpassay.auditing.claims import Claim
from dpassay.canaries import session
from dpassay.canaries.session import Asked
from dpassay.canaries.watch_blocks import make_blocks
from dpassay.canaries.watch_sums import PRIOR, ROUNDS
from dpassay.canaries.watch_verdict import Seen
from dpassay.errors import InvalidArgument, InvalidTarget
from dpassay.nets._jax import Late, jax, jnp
from dpassay.types import Verdict

flatten_util: Any = Late("jax.flatten_util")
_STEP = 2.0**-23  # uniform draws in single precision are multiples of this


class WatchState(NamedTuple):
    """What a watch keeps in the state of an optimizer.

    Attributes:
        step: how many were seen.
        key: of the draws to come.
        coins: 1 for canaries that are in, 0 for the others.
        places: the parameters of each canary, of shape (m, b).
        signs: of the same shape.
        sums: of the log-likelihood ratios.
        known: in how many steps the other records were subtracted.

    """

    step: Any
    key: Any
    coins: Any
    places: Any
    signs: Any
    sums: Any
    known: Any


class _Pair(NamedTuple):
    """What optax calls a gradient transformation."""

    init: Any
    update: Any


try:
    # Chains of optax hand further arguments, such as ``data``, to this type alone.
    from optax import GradientTransformationExtraArgs as _Base
except ModuleNotFoundError:
    _Base: Any = _Pair


class GradientWatch(_Base):
    """A gradient transformation, ``init`` and ``update``, that can judge its own state."""

    stated: tuple[float, float]

    def judge(
        self,
        state: Any,
        *,
        delta: float | None = None,
        claim: Claim | None = None,
        confidence: float = 0.95,
    ) -> Verdict:
        """Whether the training so far is what it is said to be; see ``Watch.judge``.

        Args:
            state: of the optimizer, in which that of the watch is found.
            delta: where epsilon is stated; by default at the claim's own delta, else 1e-5.
            claim: as ``--claim`` takes it; by default DP-SGD as it was stated.
            confidence: the probability that verdict and bound are right.

        """
        found = _find(state)
        steps, coins = int(found.step), np.asarray(found.coins) > 0
        if not steps:
            raise InvalidTarget("the watch saw no step; pass the optimizer's state of the end.")
        seen = Seen(
            scores=np.nan_to_num(np.asarray(found.sums, float), nan=0, posinf=None, neginf=None),
            coins=coins,
            history=[(*self.stated, steps)],
            accounted=None,
            residuals=None,
            where="noise",
            known=int(found.known) == steps,
            n_parameters=int(found.places.size),
        )
        return session.judge(seen, Asked(claim, delta, confidence))


def watch_gradients(
    *,
    noise_multiplier: float,
    sampling_rate: float,
    clip: float,
    divisor: float,
    canaries: int = 5000,
    rng: RngLike = 0,
) -> GradientWatch:
    """A transformation that adds canaries to noisy gradients and keeps what these show of them.

    Args:
        noise_multiplier: the deviation of the noise over ``clip``, as stated.
        sampling_rate: the probability with which a record is in a step; 1 for full batches.
        clip: the norm that per-example gradients are clipped to.
        divisor: by which the noisy sum was divided before it comes here; 1 for a sum.
        canaries: how many, at most one per parameter.
        rng: seed or generator of coins, blocks and draws: the audit's own. Never pass the key of
            the training.

    Returns:
        ``init`` and ``update`` as optax names them, and ``judge(state, ...)``.

    """
    noise = _check.number("noise_multiplier", noise_multiplier, low=0)
    rate = _check.sampling_rate(sampling_rate)
    size = _check.number("clip", clip, low=0, low_open=True) / _check.number(
        "divisor", divisor, low=0, low_open=True
    )
    asked = _check.count("canaries", canaries)
    seeds = [int(seed) for seed in generator(rng).integers(2**62, size=3)]

    def init(params: Any) -> WatchState:
        n_parameters = sum(int(np.size(leaf)) for leaf in jax.tree.leaves(params))
        m = min(asked, _check.count("params", n_parameters))
        blocks = make_blocks(n_parameters, m, seeds[0])
        coins = np.random.default_rng(seeds[1]).integers(2, size=m)
        # Keys of a training are made of small seeds; folding keeps this one apart from them.
        low, high = seeds[2] % 2**31, seeds[2] // 2**31
        return WatchState(
            step=jnp.zeros((), jnp.int32),
            key=jax.random.fold_in(jax.random.PRNGKey(low), high),
            coins=jnp.asarray(coins, jnp.float32),
            places=jnp.asarray(blocks.places, jnp.int32),
            signs=jnp.asarray(blocks.signs),
            sums=jnp.zeros(m, jnp.float32),
            known=jnp.zeros((), jnp.int32),
        )

    def update(
        updates: Any, state: WatchState, params: Any = None, *, data: Any = None, **others: Any
    ) -> tuple[Any, WatchState]:
        flat, unravel = flatten_util.ravel_pytree(updates)
        key, drawn = state.key, state.coins
        if rate < 1:
            key, own = jax.random.split(key)
            # Rounded down: a canary is never drawn more often than is claimed.
            drawn = drawn * (jax.random.uniform(own, drawn.shape) < rate - _STEP)
        scale = state.places.shape[1] ** -0.5
        added = state.signs * (drawn * (size * scale))[:, None]
        flat = flat.at[state.places].add(added.astype(flat.dtype))
        looked = flat if data is None else flat - flatten_util.ravel_pytree(data)[0]
        seen = (looked[state.places] * state.signs).sum(axis=1) * (scale / size)
        return unravel(flat), state._replace(
            step=state.step + 1,
            key=key,
            sums=state.sums + _score(seen, noise, rate),
            known=state.known + (data is not None),
        )

    watch = GradientWatch(init, update)
    watch.stated = (noise, rate)
    return watch


def _score(seen: Any, noise: float, rate: float) -> Any:
    """As ``score_step`` at ``estimate_noise`` of :mod:`dpassay.canaries.watch_sums`, traced."""
    if not noise > 0:
        return jnp.sign(seen - 0.5) * jnp.inf
    drawn, stated = rate / 2, noise**2
    variance = jnp.asarray(stated, seen.dtype)
    for _ in range(ROUNDS):
        odds = float(np.log(drawn / (1 - drawn))) + (seen - 0.5) / variance
        found = jnp.sum(seen**2 + jax.nn.sigmoid(odds) * (1 - 2 * seen))
        variance = jnp.maximum((found + PRIOR * stated) / (seen.size + PRIOR), 1e-12 * stated)
    x = (seen - 0.5) / variance
    if rate == 1:
        return x
    return jnp.logaddexp(float(np.log1p(-rate)), float(np.log(rate)) + x)


def _find(state: Any) -> WatchState:
    """The watch's own part of an optimizer's state."""
    leaves = jax.tree.leaves(state, is_leaf=lambda part: isinstance(part, WatchState))
    found = [leaf for leaf in leaves if isinstance(leaf, WatchState)]
    if len(found) != 1:
        raise InvalidArgument(
            f"state holds {len(found)} watches; it must hold one. Pass the state that the "
            "optimizer's update returned last."
        )
    return found[0]
