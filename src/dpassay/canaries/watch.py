"""``Watch``: canary gradients in one's own training, and the verdict on what it showed of them.

What a framework has to do at each step is the same everywhere: ask which canaries are in it
(:meth:`Watch.draw`), add their gradients to the noisy sum, and hand over what the sum then shows
along each of them (:meth:`Watch.take`). The rest is here and knows no framework.

**Why it is right.** A step of DP-SGD is v = D + sum of S_i B_i a_i + N, with D the clipped
gradients of all other records, S_i the coin of canary i, B_i whether it was drawn (with the
sampling rate), a_i its gradient of norm C and N spherical noise of deviation sigma C. Along
orthogonal a_i the noise has independent components, so that given the coins the canaries are
independent, each with the very pair of laws that an accountant prices; D may depend on everything
before the step, and so may the model, momentum and step sizes. Nothing but the claimed noise is
used. That D is subtracted audits the view "the other data are known", which the claim covers too.
"""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay._rng import RngLike, generator
from dpassay.auditing.claims import Claim
from dpassay.canaries import session
from dpassay.canaries.session import Asked
from dpassay.canaries.texts import read_array, write_array
from dpassay.canaries.watch_blocks import Blocks, make_blocks
from dpassay.canaries.watch_sums import (
    ResidualSums,
    add_scores,
    estimate_noise,
    finish_scores,
    score_step,
)
from dpassay.canaries.watch_verdict import History, Seen, read_history
from dpassay.errors import InvalidArgument, InvalidTarget
from dpassay.types import FloatArray, Verdict

if TYPE_CHECKING:
    from dpassay.canaries.watch_file import WatchFile

Where = Literal["noise", "clipping"]
View = Literal["auto", "known", "released"]


class Watch:
    """Canaries in one training, and what its steps have shown of them so far.

    Made by :func:`dpassay.probe.optimizer` and its cousins for other frameworks, which also call
    ``draw`` and ``take``. The unit that is audited is whatever the optimizer clips: one row of its
    per-example gradients, which is a record unless a loop clips the gradients of users or windows.

    Attributes:
        n_parameters: of the model.
        n_canaries: at most one per parameter.
        where: "noise": canaries are added behind the noise, so that its scale against the clipping
            norm is tested. "clipping": they go through clipping as rows, which is then tested too.
        coins: True for canaries that are in; no one but the audit may look at them.
        blocks: the parameters of each canary.
        history: (noise multiplier, sampling rate, steps) as the steps of this watch were told.
        accounted: what an accountant was told in all, in the same form; None if there is none.
        before_noise: for a plain loop: notes the clipped sum, so that it can be subtracted.
        detach: takes the watch off its optimizer, if it was attached to one.
        file: in which coins and sums are kept as steps are taken; None for nowhere.
        n_judged: how many steps the last verdict was about.

    """

    def __init__(
        self, n_parameters: int, canaries: int = 5000, rng: RngLike = 0, where: Where = "noise"
    ) -> None:
        asked = _check.count("canaries", canaries, remedy="Thousands show more than a few.")
        self.n_parameters = _check.count("n_parameters", n_parameters)
        self.n_canaries = min(asked, self.n_parameters)
        _check.choice("where", where, ("noise", "clipping"))
        self.where: Where = where
        seeds = generator(rng).integers(2**63, size=3)
        self._block_seed = int(seeds[0])
        self.coins: NDArray[np.bool_] = (
            np.random.default_rng(int(seeds[1])).integers(2, size=self.n_canaries).astype(bool)
        )
        self._draws = np.random.default_rng(int(seeds[2]))
        self.blocks: Blocks = make_blocks(self.n_parameters, self.n_canaries, self._block_seed)
        self.history: History = []
        self.accounted: Callable[[], History] | None = None
        self.before_noise: Callable[..., None] | None = None
        self.detach: Callable[[], None] = lambda: None
        self.notes: list[str] = []
        self.file: WatchFile | None = None
        self.n_judged = 0
        self._released = np.zeros(self.n_canaries)
        self._known: FloatArray | None = np.zeros(self.n_canaries)
        self._residuals = ResidualSums()

    # --------------------------------------------------------------- what a framework calls

    def draw(self, sampling_rate: float) -> FloatArray:
        """Which canaries are in this step: 1 for those, 0 for the others; once per real step."""
        if not 0 < sampling_rate < 1:
            return self.coins.astype(float)
        return (self._draws.random(self.n_canaries) < sampling_rate) * self.coins.astype(float)

    def take(
        self,
        seen: FloatArray,
        drawn: FloatArray,
        noise_multiplier: float,
        sampling_rate: float,
        known: FloatArray | None = None,
    ) -> None:
        """Count what one step showed along each canary, in units of the clipping norm.

        Args:
            seen: the released sum along each canary.
            drawn: what :meth:`draw` returned for this step.
            noise_multiplier: of this step, as stated.
            sampling_rate: of this step, as stated.
            known: ``seen`` without the other records; None if their sum is not known.

        """
        told = (float(noise_multiplier), min(float(sampling_rate), 1.0))
        # First: if Ctrl-C comes in between, a step is claimed that shows nothing, never one more
        # seen than is claimed.
        self._count(told)
        self._released = _add(self._released, seen, told)
        if known is None or self._known is None:
            self._known = None
        else:
            self._known = _add(self._known, known, told)
            if told[0] > 0:
                self._residuals.add((known - drawn) / told[0])
        if self.file is not None:
            self.file.note(self)

    def _count(self, told: tuple[float, float]) -> None:
        if self.history and self.history[-1][:2] == told:
            self.history[-1] = (*told, self.history[-1][2] + 1)
        else:
            self.history.append((*told, 1))

    # --------------------------------------------------------------- what was seen

    @property
    def steps(self) -> int:
        """How many steps were seen."""
        return sum(steps for _, _, steps in self.history)

    def scores(self, view: View = "auto") -> FloatArray:
        """The log-likelihood ratio of each canary; higher says "in".

        Args:
            view: "released": from the noisy sums alone. "known": with the other records' sums
                subtracted. "auto" takes "known" where these were seen in every step.

        """
        _check.choice("view", view, ("auto", "known", "released"))
        if view == "known" and self._known is None:
            raise InvalidArgument(
                "view='known' needs the clipped sums of every step, which this loop did not show. "
                "Pass view='released', or call watch.before_noise() where the noise is added."
            )
        known = self._known if view != "released" else None
        return finish_scores(self._released if known is None else known)

    def judge(
        self,
        *,
        delta: float | None = None,
        claim: Claim | None = None,
        confidence: float = 0.95,
        view: View = "auto",
    ) -> Verdict:
        """Whether the training so far is what it is said to be.

        Args:
            delta: where epsilon is stated; by default at the claim's own delta, else 1e-5.
            claim: a curve, a pair (epsilon, delta) or a text such as "3,1e-5". By default the claim
                is DP-SGD with what the accountant was told, step by step.
            confidence: the probability that verdict and bound are right.
            view: see :meth:`scores`.

        Returns:
            The verdict. Its bound has the DP-SGD form, ``bounds`` adds the one that assumes
            nothing; ``notes`` say what was exercised and what was not. Without a claim, "refuted"
            says that the mechanism is not the DP-SGD that was described, and assumes nothing.
            With one, it rests on what ``bound.assumption`` says.

        Raises:
            InvalidTarget: no step was seen.

        """
        seen = self.seen(view)
        self.n_judged = self.steps
        return session.judge(seen, Asked(claim, delta, confidence))

    def seen(self, view: View = "auto") -> Seen:
        """All that a verdict is made of, as it is now; see :meth:`scores` for the view.

        Raises:
            InvalidTarget: no step was seen.

        """
        if not self.history:
            raise InvalidTarget(
                "the watch saw no step: the loop steps another optimizer than the one that was "
                "given to dpassay.probe.optimizer, or another step hook took its place. Call it "
                "after make_private and all other hooks, on the optimizer whose step() is called. "
                "With torch.distributed, judge on rank 0."
            )
        accounted = self.accounted() if self.accounted is not None else None
        known = view != "released" and self._known is not None
        return Seen(
            scores=self.scores(view),
            coins=self.coins,
            history=list(self.history),
            accounted=accounted,
            residuals=self._residuals if known and self._residuals.count else None,
            where=self.where,
            known=known,
            n_parameters=self.n_parameters,
            notes=tuple(self.notes),
        )

    # --------------------------------------------------------------- checkpoints

    def state_dict(self) -> dict[str, Any]:
        """Coins, sums and generator: plain texts and numbers, to be saved with a checkpoint.

        It holds the coins, so that it is as secret as they are until the training has ended.
        """
        return {
            "n_parameters": self.n_parameters,
            "n_canaries": self.n_canaries,
            "where": self.where,
            "block_seed": str(self._block_seed),
            "coins": write_array(self.coins.astype(np.int8)),
            "generator": json.dumps(self._draws.bit_generator.state),
            "history": [list(part) for part in self.history],
            "released": write_array(self._released),
            "known": None if self._known is None else write_array(self._known),
            "residuals": json.dumps(self._residuals.numbers()),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where a saved watch was: its coins, sums and draws take the place of the own ones.

        Raises:
            InvalidArgument: it was saved for another model, or with other canaries.

        """
        for name in ("n_parameters", "n_canaries", "where"):
            if state[name] != getattr(self, name):
                raise InvalidArgument(
                    f"state has {name}={state[name]}, this watch has {getattr(self, name)}. Make "
                    "the watch as it was made before the checkpoint."
                )
        self._block_seed = int(state["block_seed"])
        self.blocks = make_blocks(self.n_parameters, self.n_canaries, self._block_seed)
        self.coins = read_array(state["coins"], np.int8).astype(bool)
        self._draws.bit_generator.state = json.loads(state["generator"])
        self.history = read_history(state["history"])
        self._released = read_array(state["released"], np.float64)
        self._known = None if state["known"] is None else read_array(state["known"], np.float64)
        self._residuals = ResidualSums.read(json.loads(state["residuals"]))


def _add(sums: FloatArray, seen: FloatArray, told: tuple[float, float]) -> FloatArray:
    """The sums with the scores of one more step, at the deviation that it shows."""
    values = np.asarray(seen, float)
    return add_scores(sums, score_step(values, estimate_noise(values, *told), told[1]))
