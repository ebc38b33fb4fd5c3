"""``for_images``: a wave of its own for every canary, of a frequency that pictures hardly have."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpassay import _check, _records
from dpassay._rng import for_trial
from dpassay.canaries import forms
from dpassay.canaries.canaries import Canaries, Made
from dpassay.canaries.directions import null_directions, rotate
from dpassay.canaries.labels import pick_labels
from dpassay.errors import InvalidArgument
from dpassay.types import FloatArray


def for_images(
    dataset: Any,
    *,
    n: int = 500,
    rng: int = 0,
    norm: float | None = None,
    public: Any = None,
    shape: Sequence[int] | None = None,
    classes: int | Sequence[Any] | None = None,
    records_per_user: int = 1,
) -> Canaries:
    """Canaries for pictures: each a direction of its own that other pictures hardly have.

    A record's gradient in the first layer is its picture times a signal. Pictures that are
    orthogonal to each other and to the data therefore have gradients that are nearly so: each
    canary is learned by itself, and clipping keeps what is its own.

    **What is read of the data**: the shape and the type of the first record, the number of records
    and the label set (unless ``classes`` is given). No pixel is read: the directions are the
    highest frequencies of the cosine transform, turned into each other at random, which pictures
    hardly have since neighbouring pixels are alike. To the training the canaries are fixed public
    records, and its claim holds for all others as before. With ``public``, the directions are those
    along which *these* pictures have the least energy: pass pictures that are public. Private ones
    would go into the canaries and past the noise of the training; the model of such an audit must
    not be released.

    Args:
        dataset: records (picture, label): a torch data set, dicts, or a pair (X, y); pictures as
            the model sees them, after transformations, in floating point.
        n: how many canaries. At most the number of values of a picture; a third of them or less is
            better.
        rng: seed of directions, signs and labels; the coins are the audit's.
        norm: of a canary. By default the square root of the number of values, which is that of
            a standardised picture, and about three times that of one with values in [0, 1].
        public: pictures, as an array or a tensor, from which the directions are taken instead.
        shape: of a picture, where its record is a row of pixels: (28, 28) or (3, 32, 32). By
            default a square, if it is one.
        classes: the label set, or how many labels there are from 0 on; by default it is read.
        records_per_user: more than 1 makes every canary a user with so many pictures along one
            direction, with labels of their own; the claim is then about users.

    Returns:
        The canaries.

    Raises:
        InvalidArgument: an argument out of range, or records that are no pictures.

    """
    n, k = _check.count("n", n), _check.count("records_per_user", records_per_user)
    seed = _check.seed("rng", rng)
    form = forms.read_form(dataset)
    picture = _read_shape(form.input(), shape)
    size = math.prod(picture)
    _check.count("n", n, high=size, remedy=f"A picture has {size} values, one for each canary.")
    random = for_trial(seed, 0, 1)
    rows = _directions(n, picture, public, random)
    length = math.sqrt(size) if norm is None else _check.number("norm", norm, low=0, low_open=True)
    pixels = np.repeat(length * rows * random.choice([-1.0, 1.0], (n, 1)), k, axis=0)
    images = pixels.reshape(n * k, *np.shape(form.input()))
    labels, others = pick_labels(form, classes, n * k, random)
    return Canaries(
        Made(
            form=form,
            parts=forms.as_columns(form, images, labels),
            stand_ins=forms.as_columns(form, images if labels is not None else -images, others),
            what="pictures along directions of their own",
            shared=False,
            seed=seed,
            records_per_user=k,
        )
    )


def _read_shape(image: Any, shape: Sequence[int] | None) -> tuple[int, ...]:
    """Height and width, after channels or before them; of a row the side of its square."""
    if not hasattr(image, "shape") or not hasattr(image, "dtype"):
        raise InvalidArgument(
            f"dataset has records whose first part is a {type(image).__qualname__}; it must be a "
            "picture as tensor or array. Insert after the transformation."
        )
    if not _is_floating(image):
        raise InvalidArgument(
            f"dataset has pictures of type {image.dtype}; they must be in floating point, as the "
            "model sees them. Scale them first, for example X / 255."
        )
    size = math.prod(image.shape)
    if shape is not None:
        given = tuple(_check.count("shape", side) for side in shape)
        if math.prod(given) != size:
            raise InvalidArgument(f"shape={given} has another size than a record, {size}.")
        return given
    if len(image.shape) > 1:
        return tuple(image.shape)
    side = math.isqrt(size)
    return (side, side) if side * side == size else (size,)


def _is_floating(image: Any) -> bool:
    if _records.is_tensor(image):
        return bool(image.is_floating_point())
    return np.dtype(image.dtype).kind == "f"


def _directions(n: int, picture: tuple[int, ...], public: Any, random: np.random.Generator) -> Any:
    if public is None:
        return high_frequencies(n, picture, random)
    rows = _records.as_array(public).reshape(len(public), -1)
    return null_directions(rows, n, math.prod(picture))


def high_frequencies(n: int, shape: tuple[int, ...], random: np.random.Generator) -> FloatArray:
    """Orthonormal rows of pictures that span the n highest frequencies of the cosine transform.

    The axes of height and width are the two largest ones; the same wave in several channels counts
    as several. Pictures are smooth: of MNIST's energy the 500 highest of 784 frequencies hold about
    a hundredth. A random rotation makes the canaries alike, so that none is easier than another.
    """
    from scipy.fft import idctn

    axes = tuple(sorted(np.argsort(shape, kind="stable")[-2:].tolist()))
    steps = [
        np.arange(side) / side if axis in axes else np.zeros(side)
        for axis, side in enumerate(shape)
    ]
    heights = sum(
        np.square(step).reshape([-1 if a == i else 1 for a in range(len(shape))])
        for i, step in enumerate(steps)
    )
    order = np.argsort(-np.broadcast_to(heights, shape).ravel(), kind="stable")[:n]
    waves = np.zeros((n, math.prod(shape)))
    waves[np.arange(n), order] = 1.0
    spread = idctn(waves.reshape(n, *shape), axes=[a + 1 for a in axes], norm="ortho")
    return rotate(np.asarray(spread).reshape(n, -1), random)
