"""What a tape holds: draws, noise primitives, batches, and what libraries say about steps."""

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpassay.replay.sites import Site

Kind = Literal["add", "compare", "coin", "choice"]
Use = Literal["value", "argmax", "order", "noisy comparison"]
Array = NDArray[Any]


@dataclass(frozen=True)
class RawDraw:
    """One call of a generator.

    Attributes:
        number: its place among the calls of the execution.
        law: "laplace", "normal", "uniform", "permutation", ...
        value: what was drawn, without a mark.
        ids: a number for every entry of the value; equal values of a continuous law share theirs,
            because they come from one seed.
        site: the line that drew.
        settings: the arguments that are no noise scale, as text, to compare them.
        batch: the number of the coins per record that were drawn last, None if there were none.

    """

    number: int
    law: str
    value: Any
    ids: Array
    site: Site
    settings: str = ""
    batch: int | None = None


class Stated(Protocol):
    """A call of a library that draws its noise where nobody sees it, and says what it costs."""

    def distance(self, other: Any) -> float | None:
        """How far the arguments of two such calls lie apart, None where that is not known."""

    def cost(self, distance: float) -> Any:
        """The event that such a distance costs, or the reason why that is not known."""


@dataclass
class Entry:
    """One noise primitive: a query, its noise, and what came out.

    Attributes:
        number: its place among the primitives of the execution.
        kind: "add" (query plus noise), "compare" (a noisy value against a plain one; the query is
            their difference), "coin" (uniform against a probability) or "choice" (of given
            probabilities); of the last two the query holds the probabilities.
        law: the law of the noise.
        scale: its scale, in the shape of the output.
        query: the value before noise.
        out: the value after noise; on a replay that of the first tape.
        ids: which draws the noise is made of, in the shape of the output.
        draws: the numbers of the raw draws.
        site: the line that added.
        chain, stage: a noisy value to which more is added stays one primitive with more stages.
        uses: how the output was used: "value", "argmax" or "noisy comparison".
        extended: a later stage of the same chain exists.
        sampled: the number of the coins per record that were drawn last, None if there were none.
        axis: along which records lie, or along which a selection was made.
        step: the number of the optimizer step that it belongs to, where a library marks steps.
        lowest: the selection took the smallest value.
        declared: the most that the call says its query moves by, None where it says nothing.
        stated: what a library says about the call, for noise that it keeps to itself.
        shown: what such a call returned, as the object that it was.
        touched: which places of the output were seen to be used; empty before the first use.
        touched_whole: whether these are all of them.
        released: the numbers as which places of the output were released, NaN for those that were
            not seen to be; empty before that.

    """

    number: int
    kind: Kind
    law: str
    scale: Array
    query: Array
    out: Array
    ids: Array
    draws: frozenset[int]
    site: Site
    chain: int
    stage: int = 0
    uses: Counter[Use] = field(default_factory=Counter)
    extended: bool = False
    sampled: int | None = None
    axis: int | None = None
    step: int | None = None
    lowest: bool = False
    declared: float | None = None
    stated: "Stated | None" = None
    shown: Any = None
    touched: Array = field(default_factory=lambda: np.zeros(0, bool))
    touched_whole: bool = False
    released: Array = field(default_factory=lambda: np.zeros(0))

    def touch(self, where: Array) -> None:
        """Write down that these places of the output were used."""
        if self.touched_whole:
            return
        if self.touched.shape != self.out.shape:
            self.touched = np.zeros(self.out.shape, bool)
        np.put(self.touched, where, True)
        self.touched_whole = bool(self.touched.all())

    def publish(self, where: Array, values: Array) -> None:
        """Write down as which numbers these places of the output are released."""
        if self.released.shape != self.out.shape:
            self.released = np.full(self.out.shape, np.nan)
        np.put(self.released, where, values)

    @property
    def counts(self) -> bool:
        """Whether the output was seen by anything: all but stages that were only added to."""
        return bool(self.uses) or not self.extended


@dataclass(frozen=True)
class Side:
    """One side of a comparison, entry by entry; ``entry`` is None for a bare draw."""

    law: str
    scale: Array
    query: Array
    ids: Array
    entry: Entry | None


@dataclass(frozen=True)
class Comparison:
    """Two noisy values that were compared: ``above`` says where the left one is larger."""

    left: Side
    right: Side
    above: Array
    site: Site


@dataclass(frozen=True)
class Coins:
    """A row of coins with one entry per record: a batch that was drawn.

    Attributes:
        number: the raw draw.
        rate: the probability of every coin.
        n_in: how many records were in, of ``n``.
        n: how many coins there were.
        site: the line.
        rows: for how many batches they were drawn at once; which batch a primitive belongs to is
            then not known.
        taken: which coins came up.

    """

    number: int
    rate: Array
    n_in: int
    n: int
    site: Site
    rows: int = 1
    taken: Array = field(default_factory=lambda: np.zeros(0, bool))


@dataclass(frozen=True)
class Step:
    """What an optimizer of a library says about one noisy step.

    Attributes:
        noise_multiplier: as its accountant will be told.
        max_grad_norm: the most that one record is said to move the sum of gradients.
        squares, size: the sum of (noise / stated scale)² and the number of its entries.
        site: the line.

    """

    noise_multiplier: float
    max_grad_norm: float
    squares: float
    size: int
    site: Site


@dataclass(frozen=True)
class Told:
    """What an accountant was told: one step with this noise on batches of this rate."""

    noise_multiplier: float
    sampling_rate: float
    site: Site


@dataclass(frozen=True)
class Edit:
    """Which record differs: ``kind`` "add", "remove" or "replace" at ``index``; n before, after."""

    kind: str
    index: int
    n: int
    n_prime: int


def part_of(entry: Entry, where: Array, **changes: Any) -> Entry:
    """An entry made of some places of another, to be kept as a stage or a comparison."""
    at = where.ravel()

    def take(values: Array) -> Array:
        return np.broadcast_to(values, entry.out.shape).ravel()[at].reshape(where.shape)

    return replace(
        entry,
        scale=take(entry.scale),
        query=take(entry.query),
        out=take(entry.out),
        ids=take(entry.ids),
        uses=Counter(),
        touched=np.zeros(0, bool),
        touched_whole=False,
        released=np.zeros(0),
        extended=False,
        **changes,
    )
