"""What torch draws: every function that draws, in terms of laws and scales.

On a replay the functions draw as ever, so that generators stay in step, and the values are then
replaced by those of the first tape. Initial weights are public randomness: they are served, and no
noise. Masks of dropout layers are served record by record.
"""

import contextlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dpassay.replay.generator import draw_choice, draw_coin, draw_indices, draw_noise, draw_other
from dpassay.replay.sites import here
from dpassay.replay.tensors import Mode, array_of, fill, is_inside_transform, is_weights

_HOME = str(Path(torch.__file__).parent)
_INITIAL = str(Path(torch.nn.init.__file__))

Rule = Callable[[Mode, Any, Any, Any], Any]


def _argument(args: Any, kwargs: Any, place: int, name: str, default: Any) -> Any:
    return args[place] if len(args) > place else kwargs.get(name, default)


def _number(value: Any) -> Any:
    return array_of(value) if isinstance(value, torch.Tensor) else value


def _is_initialising() -> bool:
    """Whether the draw is made by ``torch.nn.init``."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name == _INITIAL:
            return True
        if not name.startswith(_HOME) and "/dpassay/replay/" not in name:
            return False
        frame = frame.f_back
    return False


def keep_noise(
    mode: Mode, value: Any, law: str, scale: Any, loc: Any = 0, *, initial: bool | None = None
) -> Any:
    """A tensor that was drawn just now, on the tape; ``initial`` says that it is no noise."""
    if is_inside_transform(value):
        return _keep_hidden(mode, value, "a draw inside vmap or grad")
    if is_weights(value) or (_is_initialising() if initial is None else initial):
        return keep_served(mode, value, "initial weights")
    drawn = array_of(value).copy()
    result = draw_noise(law, _number(scale), drawn.shape, lambda: drawn, _number(loc))
    return mode.settle(value, result)


def keep_served(mode: Mode, value: Any, law: str) -> Any:
    """A tensor of randomness that is no noise: the same on D and D', and not lost."""
    tape, drawn = mode.tape, array_of(value)
    served = tape.expect(law, drawn.shape)
    if served is not None:
        fill(value, served)
    raw = tape.keep_draw(law, drawn if served is None else served, here())
    tape.followed.add(raw.number)
    return mode.remember(value, None)


def _keep_hidden(mode: Mode, value: Any, what: str) -> Any:
    mode.tape.keep_draw(what, np.zeros(0), here())
    return value


def _keep_other(mode: Mode, value: Any, law: str) -> Any:
    if is_inside_transform(value):
        return _keep_hidden(mode, value, "a draw inside vmap or grad")
    if is_weights(value) or _is_initialising():
        return keep_served(mode, value, "initial weights")
    drawn = array_of(value).copy()
    return mode.settle(value, draw_other(law, (), {}, lambda: drawn))


def _keep_indices(mode: Mode, value: Any, law: str, n: int) -> Any:
    drawn = array_of(value).copy()
    found = np.asarray(draw_indices(law, n, None, lambda: drawn))
    if mode.tape.of is not None and found.shape == drawn.shape:
        fill(value, found)
    return value


# Functions that draw


def _normal(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    mean = _argument(args, kwargs, 0, "mean", 0.0)
    std = _argument(args, kwargs, 1, "std", 1.0)
    noise = _opacus_noise(sys._getframe(2))
    if noise is not None and "sum" not in noise and noise.get("secure_mode"):
        # Secure noise begins with a draw that is thrown away.
        return keep_served(mode, func(*args, **kwargs), "thrown away")
    return keep_noise(mode, func(*args, **kwargs), "normal", std, mean)


def _opacus_noise(frame: Any) -> dict[str, Any] | None:
    """The local names of Opacus' noise function, None if the call comes from elsewhere."""
    code = frame.f_code
    inside = code.co_name == "_generate_noise" and "-packages/opacus/" in code.co_filename
    return frame.f_locals if inside else None


def _normal_in_place(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    mean = _argument(args, kwargs, 1, "mean", 0.0)
    std = _argument(args, kwargs, 2, "std", 1.0)
    # torch.nn.init fills plain tensors too, as noise for example.
    initial = False if getattr(func, "__module__", None) == "torch.nn.init" else None
    return keep_noise(mode, func(*args, **kwargs), "normal", std, mean, initial=initial)


def _standard(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    return keep_noise(mode, func(*args, **kwargs), "normal", 1.0)


def _uniform(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    return keep_noise(mode, func(*args, **kwargs), "uniform", 1.0)


def _uniform_in_place(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    if getattr(func, "__module__", None) == "torch.nn.init":
        return _initial(mode, func, args, kwargs)
    low = _argument(args, kwargs, 1, "from", 0.0)
    high = _argument(args, kwargs, 2, "to", 1.0)
    value = func(*args, **kwargs)
    if (low, high) == (0, 1):
        return keep_noise(mode, value, "uniform", 1.0)
    return _keep_other(mode, value, "uniform in an interval")


def _exponential(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    rate = _argument(args, kwargs, 1, "lambd", 1.0)
    return keep_noise(mode, func(*args, **kwargs), "exponential", 1.0 / rate)


def _geometric(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    p = _argument(args, kwargs, 1, "p", 0.5)
    return keep_noise(mode, func(*args, **kwargs), "geometric", -1.0 / np.log1p(-p))


def _multinomial(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    """Independent draws of one row of weights; what is drawn without replacement has no price."""
    value = func(*args, **kwargs)
    weights = _argument(args, kwargs, 0, "input", None)
    again = _argument(args, kwargs, 2, "replacement", False) or value.shape[-1] == 1
    if weights.ndim != 1 or not again or is_inside_transform(value):
        return _keep_other(mode, value, "multinomial")
    chances, drawn = array_of(weights), array_of(value).copy()
    found = draw_choice(chances / chances.sum(), drawn.shape, lambda: drawn)
    if mode.tape.of is not None:
        fill(value, np.asarray(found))
    return value


def _bernoulli(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    chance = _argument(args, kwargs, 1, "p", None)
    chance = args[0].clone() if chance is None and not func.__name__.endswith("_") else chance
    value = func(*args, **kwargs)
    return _keep_coins(mode, value, 0.5 if chance is None else _number(chance))


def _keep_coins(mode: Mode, value: Any, chance: Any) -> Any:
    if is_inside_transform(value):
        return _keep_hidden(mode, value, "a draw inside vmap or grad")
    drawn = array_of(value).copy()
    return mode.settle(value, draw_coin(chance, drawn.shape, lambda: drawn))


def _permutation(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    value = func(*args, **kwargs)
    return _keep_indices(mode, value, "permutation", int(_argument(args, kwargs, 0, "n", 0)))


def _integers(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    value = func(*args, **kwargs)
    whole = [part for part in args if isinstance(part, int)]
    high = kwargs.get("high", whole[1] if len(whole) > 1 else whole[0] if whole else -1)
    return _keep_indices(mode, value, "integers", high)


def _any_integers(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    return _keep_indices(mode, func(*args, **kwargs), "integers", -1)


def _other(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    return _keep_other(mode, func(*args, **kwargs), func.__name__.rstrip("_"))


def _initial(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    return keep_served(mode, func(*args, **kwargs), "initial weights")


def _zeros(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    """Opacus sums secure noise into zeros; elsewhere zeros are a value like any other."""
    value = func(*args, **kwargs)
    if _opacus_noise(sys._getframe(2)) is not None:
        mode.remember_zeros(value)
    return value


# Random layers


def _dropout(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    """``input * mask / (1 - p)``, as torch computes it, with a mask that follows the records."""
    value, training = args[0], _argument(args, kwargs, 2, "training", True)
    p = _argument(args, kwargs, 1, "p", 0.5)
    axes: int = _MASK_AXES[func.__name__] if func.__name__ in _MASK_AXES else value.dim()
    if not training or not 0 < p < 1 or not value.numel() or is_inside_transform(value):
        return func(*args, **kwargs)
    if func.__name__ in _MASK_AXES and value.dim() != _MASK_DIMS[func.__name__]:
        return _unknown(mode, func, args, kwargs)
    shape = [size if i < axes else 1 for i, size in enumerate(value.shape)]
    mask = torch.empty_like(value) if axes == value.dim() else value.new_empty(shape)
    mask = keep_served(mode, mask.detach().bernoulli_(1 - p), "dropout").div_(1 - p)
    inplace = _argument(args, kwargs, 3, "inplace", False)
    return value.mul_(mask) if inplace else value * mask


_MASK_AXES = {"dropout1d": 2, "dropout2d": 2, "dropout3d": 2}
_MASK_DIMS = {"dropout1d": 3, "dropout2d": 4, "dropout3d": 5}


def _unknown(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    """A function that may draw inside, where it cannot be followed."""
    before = torch.get_rng_state()
    value = func(*args, **kwargs)
    if not torch.equal(before, torch.get_rng_state()):
        _keep_hidden(mode, value, f"random numbers inside {func.__name__}")
    return value


def _register_hook(mode: Mode, func: Any, args: Any, kwargs: Any) -> Any:
    """A hook of the backward pass may add noise; torch runs it with the mode off."""
    hook = _argument(args, kwargs, 1, "hook", None)

    def follow(grad: Any) -> Any:
        if mode in torch.overrides._get_current_function_mode_stack():
            return hook(grad)
        with mode:
            return hook(grad)

    return func(args[0], follow)


RULES: dict[str, Rule] = {
    "normal": _normal, "normal_": _normal_in_place, "randn": _standard, "randn_like": _standard,
    "rand": _uniform, "rand_like": _uniform, "uniform_": _uniform_in_place,
    "exponential_": _exponential, "geometric_": _geometric,
    "bernoulli": _bernoulli, "bernoulli_": _bernoulli, "multinomial": _multinomial,
    "randperm": _permutation, "randint": _integers, "randint_like": _integers,
    "random_": _any_integers,
    **dict.fromkeys(("cauchy_", "log_normal_", "poisson", "_standard_gamma",
                     "_sample_dirichlet", "binomial"), _other),
    **dict.fromkeys(("kaiming_uniform_", "kaiming_normal_", "constant_"), _initial),
    "zeros": _zeros, "zeros_like": _zeros,
    **dict.fromkeys(("dropout", "dropout1d", "dropout2d", "dropout3d"), _dropout),
    **dict.fromkeys(("alpha_dropout", "feature_dropout", "feature_alpha_dropout", "rrelu",
                     "gumbel_softmax", "scaled_dot_product_attention",
                     "multi_head_attention_forward", "lstm", "gru", "rnn_tanh", "rnn_relu",
                     "fractional_max_pool2d", "fractional_max_pool3d"), _unknown),
    "register_hook": _register_hook,
}  # fmt: skip


# What a function mode does not see


def patch(stack: contextlib.ExitStack, mode: Mode) -> None:
    """Draws that torch makes from uniform numbers, and tensors that become parameters."""
    distributions = torch.distributions
    _replace(stack, distributions.Laplace, "rsample", _sampling(mode, "laplace"))
    for name in ("sample", "rsample"):
        _replace(stack, distributions.Gumbel, name, _sampling(mode, "gumbel"))
    original = torch.nn.Parameter.__new__

    def new(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
        if data is not None:
            mode.note_weights(data)
        return original(cls, data, requires_grad)

    _replace(stack, torch.nn.Parameter, "__new__", staticmethod(new))
    _replace(stack, torch.utils.data.DataLoader, "__init__", _loading(mode))


def _loading(mode: Mode) -> Callable[[Any], Callable[..., Any]]:
    """Loaders load in this process: what is drawn in another one is not seen."""
    alone = {"num_workers": 0, "prefetch_factor": None, "persistent_workers": False, "timeout": 0,
             "multiprocessing_context": None}  # fmt: skip

    def around(original: Any) -> Callable[..., Any]:
        signature = inspect.signature(original)

        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            given = signature.bind(self, *args, **kwargs).arguments
            if given.get("num_workers"):
                text = "worker processes of a DataLoader; its records were loaded in this process"
                mode.tape.note(text, here())
                args, kwargs = (), {name: part for name, part in given.items() if name != "self"}
                kwargs |= {name: part for name, part in alone.items() if name in kwargs}
            original(self, *args, **kwargs)
            if isinstance(self.batch_size, int):
                mode.tape.batch_sizes.append(self.batch_size)

        return init

    return around


def _sampling(mode: Mode, law: str) -> Callable[[Any], Callable[..., Any]]:
    def around(original: Any) -> Callable[..., Any]:
        def rsample(self: Any, sample_shape: Any = ()) -> Any:
            with torch._C.DisableTorchFunction():
                value = original(self, torch.Size(sample_shape))
                return keep_noise(mode, value, law, self.scale, self.loc)

        return rsample

    return around


def _replace(stack: contextlib.ExitStack, owner: Any, name: str, made: Any) -> None:
    """Set an attribute of a class until the stack is left; an inherited one is inherited again."""
    own = owner.__dict__.get(name)
    if callable(made) and not isinstance(made, staticmethod):
        made = made(getattr(owner, name))
    stack.callback(setattr, owner, name, own) if own is not None else stack.callback(
        delattr, owner, name
    )
    setattr(owner, name, made)
