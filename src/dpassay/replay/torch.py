"""Following draws through torch: one function mode, no subclass of Tensor.

The mode sees every call of a torch function on the thread of the check. Marks are kept beside the
tensors, by identity, and what an operation does to a mark is computed by the rules of
:mod:`dpassay.replay.draws` on NumPy views of the operands. A tensor that was changed in place by
anything else loses its mark, which its version counter shows.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from dpassay.replay import torch_draws
from dpassay.replay.draws import PASSIVE, Draw, Mark, Noisy, mark_of, note, operate, wrap
from dpassay.replay.entries import Array
from dpassay.replay.sites import is_users_call
from dpassay.replay.tape import Tape, current
from dpassay.replay.tensors import array_of, fill, is_inside_transform, is_weights
from dpassay.replay.traced import TracedArray

# name of the torch function -> (ufunc, operands the other way round)
_OPERATIONS: dict[str, tuple[str, bool]] = {
    **dict.fromkeys(("add", "add_", "__add__", "__radd__", "__iadd__"), ("add", False)),
    **dict.fromkeys(("sub", "sub_", "subtract", "subtract_", "__sub__", "__isub__"),
                    ("subtract", False)),
    **dict.fromkeys(("rsub", "__rsub__"), ("subtract", True)),
    **dict.fromkeys(("mul", "mul_", "multiply", "multiply_", "__mul__", "__rmul__", "__imul__"),
                    ("multiply", False)),
    **dict.fromkeys(("div", "div_", "divide", "true_divide", "__truediv__", "__itruediv__",
                     "__div__", "__idiv__"), ("true_divide", False)),
    **dict.fromkeys(("__rdiv__", "__rtruediv__"), ("true_divide", True)),
    **dict.fromkeys(("lt", "less", "__lt__"), ("less", False)),
    **dict.fromkeys(("le", "less_equal", "__le__"), ("less_equal", False)),
    **dict.fromkeys(("gt", "greater", "__gt__"), ("greater", False)),
    **dict.fromkeys(("ge", "greater_equal", "__ge__"), ("greater_equal", False)),
    **dict.fromkeys(("neg", "neg_", "negative", "__neg__"), ("negative", False)),
}  # fmt: skip
_MOVES = frozenset({
    "view", "view_as", "reshape", "reshape_as", "flatten", "unflatten", "unsqueeze", "squeeze", "t",
    "transpose", "permute", "__getitem__", "narrow", "select", "split", "chunk", "unbind", "expand",
    "expand_as", "index_select", "flip", "ravel", "movedim", "swapaxes", "split_with_sizes",
})  # fmt: skip
_KEEPS = frozenset({"clone", "detach", "detach_", "contiguous", "to", "float", "double", "half",
                    "bfloat16", "cpu", "cuda", "type", "type_as", "pin_memory"})  # fmt: skip
_PUBLIC = frozenset({
    "matmul", "__matmul__", "__rmatmul__", "mm", "mv", "bmm", "dot", "inner", "outer", "einsum",
    "tensordot", "linear", "bilinear", "embedding", "addmm", "addmv", "baddbmm", "conv1d", "conv2d",
    "conv3d", "layer_norm", "group_norm", "batch_norm",
})  # fmt: skip
_SILENT = PASSIVE | {"size", "dim", "numel", "is_complex", "is_floating_point", "__get__",
                     "__set__", "stride", "data_ptr", "requires_grad_", "zero_", "is_contiguous",
                     "isnan", "isfinite", "broadcast_tensors", "_is_all_true", "__hash__",
                     "get_device", "storage_offset", "register_hook"}  # fmt: skip
_READS = frozenset({"item", "tolist", "__float__", "__format__", "__repr__"})
_ORDERS = frozenset({"argsort", "topk", "sort", "msort", "kthvalue"})


def _version(tensor: Any) -> int:
    return -1 if tensor.is_inference() else tensor._version


class Following(TorchFunctionMode):
    """The mode: what is called on this thread while it is on is written on the tape."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape
        self._marks: dict[int, tuple[Any, Mark, int]] = {}
        self._zeros: dict[int, tuple[Any, int]] = {}
        self._grads: dict[int, Any] = {}  # or a gradient would be another object when it is read

    # Marks

    def mark_of(self, value: Any) -> Mark | None:
        """The mark of a tensor, None where it is plain or was changed since."""
        kept = self._marks.get(id(value))
        if kept is None or kept[0]() is not value or kept[2] != _version(value):
            return None
        return kept[1]

    def remember(self, tensor: Any, mark: Mark | None) -> Any:
        """The same tensor, which has this mark from now on."""
        key = id(tensor)
        if mark is None:
            self._marks.pop(key, None)
            return tensor

        def forget(dead: Any) -> None:
            if key in self._marks and self._marks[key][0] is dead:
                del self._marks[key]

        self._marks[key] = (weakref.ref(tensor, forget), mark, _version(tensor))
        return tensor

    def remember_zeros(self, tensor: Any) -> None:
        """A tensor of zeros to which noise will be added before anything else is."""
        self._zeros = {id(tensor): (weakref.ref(tensor), _version(tensor))}

    def _is_zeros(self, value: Any) -> bool:
        kept = self._zeros.get(id(value))
        return kept is not None and kept[0]() is value and kept[1] == _version(value)

    def settle(self, tensor: Any, result: Any) -> Any:
        """The tensor with what a rule of :mod:`dpassay.replay.draws` made of its value."""
        if self.tape.of is not None:
            fill(tensor, result)
        return self.remember(tensor, mark_of(result))

    # Calls

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if current() is not self.tape:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        draws = torch_draws.RULES.get(name)
        if draws is not None:
            return draws(self, func, args, kwargs)
        if name in _READS:
            self._read(args[0])
        if not self._marks:
            return func(*args, **kwargs)
        rule = _RULES.get(name)
        if rule is not None and args:
            return rule(self, name, func, args, kwargs)
        if name not in _SILENT:
            self._use(name, (*args, *kwargs.values()))
        return func(*args, **kwargs)

    def _read(self, value: Any) -> None:
        """Write down a value that the user's own code reads: it may be printed, or decide."""
        if self.mark_of(value) is None and not is_inside_transform(value) and is_users_call():
            with torch._C.DisableTorchFunction():
                self.tape.read(array_of(value))

    def _use(self, name: str, values: Any) -> None:
        """Write down that marked tensors among the values are used."""
        for value in values:
            if isinstance(value, list | tuple):
                self._use(name, value)
                continue
            mark = self.mark_of(value) if isinstance(value, torch.Tensor) else None
            if mark is None:
                continue
            note(mark, "order" if name in _ORDERS else "value")
            if isinstance(mark, Draw) and (name in _PUBLIC or is_weights(value)):
                self.tape.public |= mark.draws

    def note_weights(self, tensor: Any) -> None:
        """A draw that becomes a parameter is an initial weight, and no noise."""
        mark = self.mark_of(tensor)
        if isinstance(mark, Draw):
            self.tape.public |= mark.draws
            self.tape.followed |= mark.draws

    def _operate(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        other = kwargs.get("other", args[1] if len(args) > 1 else None)
        operands = (args[0],) if _OPERATIONS[name][0] == "negative" else (args[0], other)
        marks = [self.mark_of(part) for part in operands]
        if not any(marks) or any(is_inside_transform(part) for part in _tensors(operands)):
            return func(*args, **kwargs)
        if kwargs.keys() - {"other", "alpha"}:  # an output or a rounding mode
            self._use(name, operands)
            return func(*args, **kwargs)
        in_place = name.startswith("__i") or (name.endswith("_") and not name.startswith("__"))
        zeros = [self._is_zeros(part) for part in operands]
        plain = [self._operand(part, copy=in_place) for part in operands]
        value = func(*args, **kwargs)
        if any(zeros) and isinstance(marks[1 - zeros.index(True)], Draw):
            return self._from_zeros(value, marks[1 - zeros.index(True)])
        return self._result(name, value, plain, marks, kwargs.get("alpha", 1))

    def _from_zeros(self, value: Any, mark: Any) -> Any:
        same = tuple(value.shape) == mark.ids.shape
        return self.remember(value, mark if same else None)

    def _operand(self, value: Any, *, copy: bool) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        found = array_of(value)
        return found.copy() if copy else found

    def _result(self, name: str, value: Any, plain: Any, marks: Any, alpha: Any) -> Any:
        ufunc, turned = _OPERATIONS[name]
        inputs = [
            part if mark is None else TracedArray.make(np.asarray(part), mark)
            for part, mark in zip(plain, marks, strict=True)
        ]
        if alpha != 1:
            inputs[1] = operate("multiply", (alpha, inputs[1]), _product)
        if turned:
            inputs.reverse()
        shown = array_of(value)
        return self.settle(value, operate(ufunc, tuple(inputs), lambda *_: shown))

    def _move(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """A function that only takes or moves entries."""
        value = func(*args, **kwargs)
        mark = self.mark_of(args[0])
        if mark is None:
            return value
        if isinstance(value, torch.Tensor):
            return self.remember(value, mark.map(_move_with(func, args, kwargs)))
        for i, part in enumerate(value):
            self.remember(part, mark.map(_move_with(func, args, kwargs, i)))
        return value

    def _keep(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """A function that returns the same values, perhaps as another type."""
        mark = self.mark_of(args[0])
        value = func(*args, **kwargs)
        if mark is not None and value.is_floating_point():
            return self.remember(value, mark)
        note(mark)
        return value

    def _get(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        value = func(*args, **kwargs)
        what = getattr(getattr(func, "__self__", None), "__name__", "")
        mark = self.mark_of(args[0]) if what in ("data", "T", "mT") else None
        if mark is None:
            return value
        return self.remember(value, mark if what == "data" else mark.map(lambda part: part.T))

    def _set(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        what = getattr(getattr(func, "__self__", None), "__name__", "")
        if what == "grad" and self.mark_of(args[1]) is not None:
            self._grads[id(args[0])] = args[1]
        return func(*args, **kwargs)

    def _copy(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        mark = self.mark_of(args[1]) if len(args) > 1 else None
        value = func(*args, **kwargs)
        if mark is None or value.shape != args[1].shape:
            note(mark)
            return value
        if is_weights(value):
            self.note_weights(args[1])
            return value
        return self.remember(value, mark)

    def _join(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """Draws of one law, joined; anything else among them is a use."""
        value = func(*args, **kwargs)
        marks = [self.mark_of(part) for part in args[0]]
        draws = [mark for mark in marks if isinstance(mark, Draw)]
        if not draws or len(draws) < len(marks) or len({mark.law for mark in draws}) > 1:
            self._use(name, args)
            return value
        places = [_tensor(mark.ids) for mark in draws]
        scales = [_tensor(np.broadcast_to(mark.scale, mark.ids.shape)) for mark in draws]
        rest = args[1:]
        ids, scale = (func(part, *rest, **kwargs).numpy() for part in (places, scales))
        numbers = frozenset[int]().union(*(mark.draws for mark in draws))
        return self.remember(value, Draw(draws[0].law, scale, ids, numbers))

    def _argmax(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        mark = self.mark_of(args[0])
        axis = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if isinstance(mark, Noisy) and mark.is_whole and axis is None:
            mark.use("argmax")
            mark.entry.axis, mark.entry.lowest = None, name == "argmin"
        else:
            note(mark)
        return func(*args, **kwargs)

    def _leave(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """A tensor of one entry as a number, or any as an array: the mark goes along."""
        value, mark = func(*args, **kwargs), self.mark_of(args[0])
        if mark is None or name == "numpy":
            return wrap(value, mark)
        return wrap(value, mark.map(lambda part: part.reshape(())))


def _product(left: Any, right: Any) -> Array:
    return np.asarray(left * right)


def _tensor(part: Array) -> Any:
    return torch.from_numpy(np.array(part))


def _tensors(values: Any) -> list[Any]:
    return [value for value in values if isinstance(value, torch.Tensor)]


def _move_with(func: Any, args: Any, kwargs: Any, part: int | None = None) -> Callable[..., Any]:
    def move(values: Array) -> Array:
        found = func(_tensor(values), *args[1:], **kwargs)
        return (found if part is None else found[part]).numpy()

    return move


_RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(_OPERATIONS, Following._operate),
    **dict.fromkeys(_MOVES, Following._move),
    **dict.fromkeys(_KEEPS, Following._keep),
    **dict.fromkeys(("cat", "concat", "concatenate", "stack", "hstack", "vstack"),
                    Following._join),
    **dict.fromkeys(("argmax", "argmin"), Following._argmax),
    **dict.fromkeys(("item", "numpy", "__float__"), Following._leave),
    "__get__": Following._get,
    "__set__": Following._set,
    "copy_": Following._copy,
}  # fmt: skip
del _RULES["__float__"]  # must return a plain number


@contextlib.contextmanager
def following(tape: Tape, seed: int) -> Iterator[None]:
    """Follow torch's draws until the end; its generators and threads are then as they were."""
    threads, kind = torch.get_num_threads(), torch.get_default_dtype()
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng())
        stack.callback(torch.set_num_threads, threads)
        stack.callback(torch.set_default_dtype, kind)
        stack.callback(torch.set_grad_enabled, torch.is_grad_enabled())
        torch.set_num_threads(1)  # sums must not depend on how busy the machine is
        torch.manual_seed(seed)
        mode = Following(tape)
        torch_draws.patch(stack, mode)
        stack.enter_context(mode)
        yield
