"""Public libraries as they are on the registry: what an audit says of a version, as a fact.

Each program is a few lines that use a package as its documentation shows, with the claim that the
package makes for them. Where a program is expected to be broken, the fault is known upstream and
the issue is named; every other program is expected to stand. ``dpassay zoo --libraries`` installs
each package into an environment of its own (:mod:`dpassay.zoo.environments`) and audits it with the
noise that it really draws: nothing is seeded, so that numbers differ from run to run.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpassay.auditing import audit
from dpassay.errors import AuditStopped, InvalidArgument, MissingDependency
from dpassay.privacy import ApproxDP, PureDP
from dpassay.privacy.accounting import account
from dpassay.privacy.events import dp_sgd_event
from dpassay.types import PrivacyCurve, Verdict
from dpassay.zoo.environments import Process, default_place, install, process

# diffprivlib 0.6.6 does not start with a newer scikit-learn.
_DIFFPRIVLIB = ("scikit-learn==1.7.2", "diffprivlib==0.6.6")
_OPENDP = ("numpy==2.4.6", "opendp==0.16.0")
_OPACUS = ("torch==2.13.0", "opacus==1.6.0")
_SMARTNOISE = ("torch==2.13.0", "smartnoise-synth==1.0.8")


@dataclass(frozen=True)
class Program:
    """A use of a package, and what the package says of it.

    Attributes:
        name: the package and what is used of it.
        requirements: what is installed, with versions.
        code: defines ``draw(data, size)``, which returns an array of ``size`` outputs.
        pair: two neighbouring inputs, as JSON has them.
        claim: what the package promises.
        broken: whether that is known to be false.
        about: what goes wrong, or what is tested.
        source: the upstream issue of a known fault.
        trials: of an audit; those above 20 000 are drawn many at a time.

    """

    name: str
    requirements: tuple[str, ...]
    code: str
    pair: tuple[Any, Any]
    claim: PrivacyCurve
    broken: bool
    about: str
    source: str = ""
    trials: int = 100_000


@dataclass(frozen=True)
class Tried:
    """A program with what came of it: a verdict, or why there is none."""

    program: Program
    verdict: Verdict | None
    seconds: float
    why: str = ""

    @property
    def right(self) -> bool:
        """Whether the verdict is as expected; without a verdict nothing is wrong."""
        return self.verdict is None or self.verdict.refuted == self.program.broken


_SCALAR = ([0.0], [1.0])
_NOISE = "numpy.array([mechanism.randomise(data[0]) for _ in range(size)])"

# MWEM releases as many records as it was given, so that neighbours have as many: epsilon = 1 for a
# record that is added or removed is 2 for one that is replaced.
_REPLACED = PureDP(2.0, neighbouring="replace-one")
_MWEM = (
    "import numpy, pandas\nfrom snsynth import Synthesizer\n"
    "from snsynth.transform import LabelTransformer, TableTransformer\n"
    "known = TableTransformer([LabelTransformer(nullable=False)])\n"
    "known.fit([[0], [1]])\n"
    "def fit(data):\n"
    "    made = Synthesizer.create('mwem', epsilon=1.0)\n"
    "    made.fit(pandas.DataFrame({'a': data}), transformer=known)\n"
    "    return numpy.mean(numpy.asarray(made.sample(100), float))\n"
    "def draw(data, size): return numpy.array([fit(data) for _ in range(size)])"
)

PROGRAMS = (
    Program(
        "diffprivlib Laplace",
        _DIFFPRIVLIB,
        "import numpy\nfrom diffprivlib.mechanisms import Laplace\n"
        "mechanism = Laplace(epsilon=1, sensitivity=1)\n"
        f"def draw(data, size): return {_NOISE}",
        _SCALAR,
        PureDP(1.0),
        broken=False,
        about="noise on one number of sensitivity 1",
    ),
    Program(
        "diffprivlib GaussianAnalytic",
        _DIFFPRIVLIB,
        "import numpy\nfrom diffprivlib.mechanisms import GaussianAnalytic\n"
        "mechanism = GaussianAnalytic(epsilon=1, delta=1e-2, sensitivity=1)\n"
        f"def draw(data, size): return {_NOISE}",
        _SCALAR,
        ApproxDP(1.0, 1e-2),
        broken=False,
        about="noise on one number of sensitivity 1",
    ),
    Program(
        "diffprivlib LinearRegression",
        _DIFFPRIVLIB,
        "import numpy\nfrom diffprivlib.models import LinearRegression\n"
        "def fit(data):\n"
        "    X = numpy.array(data)[:, None]\n"
        "    model = LinearRegression(epsilon=1, bounds_X=(0, 1), bounds_y=(-1, 1),\n"
        "                             fit_intercept=False)\n"
        "    return model.fit(X, numpy.zeros(len(X))).coef_[0]\n"
        "def draw(data, size): return numpy.array([fit(data) for _ in range(size)])",
        ([0.1, 1.0], [0.1]),
        PureDP(1.0),
        broken=True,
        about="bounds (0, 1) make the sensitivity of the squares 0, so that they get no noise",
        source="https://github.com/IBM/differential-privacy-library/issues/105",
        trials=2000,
    ),
    Program(
        "diffprivlib LogisticRegression",
        _DIFFPRIVLIB,
        "import numpy\nfrom diffprivlib.models import LogisticRegression\n"
        "def fit(data):\n"
        "    X, y = numpy.array(data)[:, :1], numpy.array(data)[:, 1].astype(int)\n"
        "    model = LogisticRegression(epsilon=1, data_norm=1.0, fit_intercept=False).fit(X, y)\n"
        "    return model.coef_[0]\n"
        "def draw(data, size): return numpy.array([fit(data) for _ in range(size)])",
        ([[0.5, 0], [-0.5, 1], [1.0, 1]], [[0.5, 0], [-0.5, 1]]),
        PureDP(1.0),
        broken=False,
        about="the objective is perturbed; one record at the edge of the norm",
        trials=1000,
    ),
    Program(
        "OpenDP Laplace",
        _OPENDP,
        "import numpy, opendp.prelude as dp\ndp.enable_features('contrib')\n"
        "space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)\n"
        "noisy = space >> dp.m.then_laplace(scale=1.0)\n"
        "def draw(data, size): return numpy.array([noisy(data[0]) for _ in range(size)])",
        _SCALAR,
        PureDP(1.0),
        broken=False,
        about="noise on one number of sensitivity 1",
    ),
    Program(
        "OpenDP Gaussian",
        _OPENDP,
        "import numpy, opendp.prelude as dp\ndp.enable_features('contrib')\n"
        "space = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)\n"
        "noisy = space >> dp.m.then_gaussian(scale=1.0)\n"
        "def draw(data, size): return numpy.array([noisy(data[0]) for _ in range(size)])",
        _SCALAR,
        account(dp_sgd_event(1.0, 1.0, 1)),
        broken=False,
        about="noise of deviation 1 on one number of sensitivity 1",
        trials=30_000,
    ),
    Program(
        "Opacus, n in and beyond a multiple of the batch",
        _OPACUS,
        "import numpy, torch\nfrom opacus import PrivacyEngine\n"
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "def train(n):\n"
        "    model = torch.nn.Linear(1, 1, bias=False)\n"
        "    torch.nn.init.zeros_(model.weight)\n"
        "    data = TensorDataset(torch.ones(n, 1), torch.ones(n, 1))\n"
        "    model, optimizer, loader = PrivacyEngine().make_private(\n"
        "        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0),\n"
        "        data_loader=DataLoader(data, batch_size=8),\n"
        "        noise_multiplier=2.0, max_grad_norm=1.0)\n"
        "    for X, y in loader:\n"
        "        optimizer.zero_grad()\n"
        "        (model(X) - y).sum().backward()\n"
        "        optimizer.step()\n"
        "        break\n"
        "    return float(next(model.parameters()))\n"
        "def draw(data, size): return numpy.array([train(data[0]) for _ in range(size)])",
        ([16], [17]),
        account(dp_sgd_event(2.0, 0.5, 1)),
        broken=True,
        about="rate and divisor are computed from n: one record more makes 1/2 of them 1/3",
        source="https://github.com/meta-pytorch/opacus/issues/571",
        trials=2000,
    ),
    Program(
        "smartnoise-synth MWEM",
        _SMARTNOISE,
        _MWEM,
        ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1]),
        _REPLACED,
        broken=False,
        about="a table of one bit with both of its values",
        trials=1000,
    ),
    Program(
        "smartnoise-synth MWEM, a value of one record",
        _SMARTNOISE,
        _MWEM,
        ([0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]),
        _REPLACED,
        broken=True,
        about="bins are made of the values that occur, though a transformer has both of them",
        source="https://github.com/opendp/smartnoise-sdk/issues/473",
        trials=2000,
    ),
)


def find_programs(names: Iterable[str] = ()) -> tuple[Program, ...]:
    """Those whose names contain one of the texts; all without any.

    Raises:
        InvalidArgument: a text that no name contains.

    """
    wanted = [text.lower() for text in names]
    found = tuple(p for p in PROGRAMS if not wanted or any(t in p.name.lower() for t in wanted))
    if not found:
        listed = ", ".join(program.name for program in PROGRAMS)
        raise InvalidArgument(f"only={', '.join(wanted)!r} is in no name. There are: {listed}.")
    return found


def try_programs(
    programs: Iterable[Program] = PROGRAMS,
    *,
    confidence: float = 1 - 1e-6,
    place: Path | None = None,
) -> Iterator[Tried]:
    """Install and audit one program after another.

    Args:
        programs: which ones.
        confidence: of each verdict.
        place: a folder for the environments; None for one in the user's cache.

    """
    for program in programs:
        began = time.monotonic()
        try:
            python = install(program.requirements, place or default_place())
            with process(python, program.code) as child:
                verdict = _audit(program, child, confidence)
            yield Tried(program, verdict, time.monotonic() - began)
        except (MissingDependency, AuditStopped) as reason:
            yield Tried(
                program, None, time.monotonic() - began, " ".join(str(reason).splitlines()[:2])
            )


def _audit(program: Program, child: Process, confidence: float) -> Verdict:
    def one(data: Any, rng: np.random.Generator | None) -> Any:
        return child.draw(data, 1)[0]

    def many(data: Any, rng: np.random.Generator | None, size: int) -> Any:
        return child.draw(data, size)

    return audit(
        many if program.trials > 20_000 else one,
        program.pair,
        claim=program.claim,
        trials=program.trials,
        confidence=confidence,
        rng=None,
        neighbours="trusted",
        progress="quiet",
    )
