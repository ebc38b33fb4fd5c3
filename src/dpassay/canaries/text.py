"""``for_text``: a new token for every canary, and nothing but this token in its text."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpassay import _check
from dpassay._rng import for_trial
from dpassay.canaries import forms
from dpassay.canaries.canaries import Canaries, Made
from dpassay.canaries.forms import Form
from dpassay.canaries.labels import pick_labels
from dpassay.errors import InvalidArgument

_IDS = ("input_ids", "ids", "tokens")
_LENGTH = 16  # of a canary in a data set of texts, whose lengths are not looked at


class Tokenizer(Protocol):
    """What is asked of a tokenizer: its size, new tokens, and their numbers."""

    def __len__(self) -> int: ...
    def add_tokens(self, new_tokens: list[str]) -> int: ...
    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]: ...


class TextCanaries(Canaries):
    """Canaries of text, with the vocabulary that a model needs for them.

    Attributes:
        tokens: the number of each canary's own token; None where canaries are random tokens.

    """

    def __init__(self, made: Made, vocabulary: int, tokens: NDArray[np.int64] | None) -> None:
        super().__init__(made)
        self._vocabulary, self.tokens = vocabulary, tokens

    @property
    def vocabulary_size(self) -> int:
        """How many tokens the model must know: more than the data have."""
        if self.tokens is None:
            return self._vocabulary
        return max(self._vocabulary, int(self.tokens.max()) + 2)  # and one for stand-ins


def for_text(
    dataset: Any,
    tokenizer: Tokenizer | int | None = None,
    *,
    n: int = 300,
    rng: int = 0,
    new_tokens: bool = True,
    length: int | None = None,
    classes: int | Sequence[Any] | None = None,
    records_per_user: int = 1,
) -> TextCanaries:
    """Canaries for sequences of tokens: each has a new token of its own and no other token.

    A sequence that ends in a new token shares all of its gradient but a small part with other
    texts, and clipping keeps the larger part. One that repeats its own token spends its gradient
    on this token's embedding and output.

    **What is read of the data**: the structure, types and shape of the first record, and the label
    set if records have a class. No token of it is read.

    The model must know ``canaries.vocabulary_size`` tokens: pass that number where it is made, or
    call ``model.resize_token_embeddings(canaries.vocabulary_size)``.

    Args:
        dataset: sequences of token numbers, all of one length: a torch data set (alone, or with
            targets of the same shape, or a class), dicts with ``input_ids`` as Hugging Face has
            them, or an array; or texts, which are tokenized later.
        tokenizer: the number of tokens, or a tokenizer with ``add_tokens``, which gets new ones.
            One of them is needed.
        n: how many canaries.
        rng: seed of what is drawn; the coins are the audit's.
        new_tokens: False for a vocabulary that cannot be extended: then canaries are random tokens,
            which are seen far less.
        length: of a canary; by default that of the first record, which must then be public, as it
            is where all have the same.
        classes: the label set, where records have a class.
        records_per_user: more than 1 makes every canary a user with so many sequences of one
            token; the claim is then about users.

    Raises:
        InvalidArgument: an argument out of range, or records that hold no tokens.

    """
    n, k = _check.count("n", n), _check.count("records_per_user", records_per_user)
    seed = _check.seed("rng", rng)
    form = forms.read_form(dataset)
    random = for_trial(seed, 0, 1)
    vocabulary = _read_vocabulary(tokenizer)
    names = [f"<canary-{i}>" for i in range(n)]
    tokens = _number_tokens(tokenizer, names, vocabulary) if new_tokens else None
    steps = _read_length(form, length)
    if tokens is None:
        rows = random.integers(vocabulary, size=(n * k, steps))
    else:
        rows = np.repeat(np.repeat(tokens, k)[:, None], steps, axis=1)
    others = np.full_like(rows, vocabulary - 1 if tokens is None else tokens.max() + 1)
    texts = _write(names, k, steps) if _is_text(form) else None
    labels, wrong = _labels(form, classes, n * k, random)
    made = Made(
        form=form,
        parts=_fill(form, rows, labels, texts),
        stand_ins=_fill(form, others, wrong, texts),
        what="sequences of a new token each" if new_tokens else "sequences of random tokens",
        shared=not new_tokens,
        seed=seed,
        records_per_user=k,
    )
    return TextCanaries(made, vocabulary, tokens)


def _read_vocabulary(tokenizer: Tokenizer | int | None) -> int:
    if tokenizer is None:
        raise InvalidArgument(
            "tokenizer is missing. The largest token of the data would tell what is in them; pass "
            "the number of tokens, or the tokenizer."
        )
    size = tokenizer if isinstance(tokenizer, int) else len(tokenizer)
    return _check.count("tokenizer", size, remedy="It is the number of tokens.")


def _number_tokens(tokenizer: Any, names: list[str], vocabulary: int) -> NDArray[np.int64]:
    """The numbers of the new tokens, with which a tokenizer is extended."""
    if isinstance(tokenizer, int):
        return np.arange(vocabulary, vocabulary + len(names))
    tokenizer.add_tokens(names)
    return np.asarray(tokenizer.convert_tokens_to_ids(names), dtype=np.int64)


def _sequence(form: Form) -> Any:
    """The part of the example that holds tokens, or a text."""
    example = form.example
    if isinstance(example, Mapping):
        named = [example[name] for name in _IDS if name in example]
        return named[0] if named else form.input()
    return example if forms.is_leaf(example) else example[0]


def _is_text(form: Form) -> bool:
    return isinstance(_sequence(form), str)


def _read_length(form: Form, length: int | None) -> int:
    if length is not None:
        return _check.count("length", length)
    sequence = _sequence(form)
    if isinstance(sequence, str):
        return _LENGTH
    shape = np.shape(sequence)
    if len(shape) != 1 or shape[0] == 0 or not _holds_whole_numbers(sequence):
        raise InvalidArgument(
            f"dataset has records of shape {shape}; for_text needs sequences of token numbers, "
            "dicts with input_ids, or texts."
        )
    return int(shape[0])


def _holds_whole_numbers(sequence: Any) -> bool:
    kind = str(sequence.dtype) if hasattr(sequence, "dtype") else type(sequence[0]).__name__
    return "int" in kind


def _write(names: list[str], k: int, steps: int) -> NDArray[Any]:
    return np.repeat(np.array([" ".join([name] * steps) for name in names], dtype=object), k)


def _labels(
    form: Form, classes: int | Sequence[Any] | None, size: int, random: np.random.Generator
) -> tuple[Any, Any]:
    """Classes where a record has one; targets of the shape of the sequence are no labels."""
    label = form.label()
    if label is None or np.ndim(label) > 0:
        return None, None
    return pick_labels(form, classes, size, random)


def _fill(form: Form, rows: NDArray[np.int64], labels: Any, texts: Any) -> Any:
    """Columns in the form of the data set: tokens wherever it has tokens."""

    def column(name: str, like: Any) -> Any:
        if isinstance(like, str) and name not in forms.LABELS:
            return texts
        if name == "attention_mask":
            return np.ones_like(rows)
        if name in _IDS or (np.ndim(like) == 1 and name in ("", *forms.LABELS)):
            return rows
        if name in ("", *forms.LABELS) and labels is not None:
            return labels
        return np.zeros((len(rows), *([rows.shape[1]] if np.ndim(like) else [])), int)

    example = form.example
    if form.kind == "whole":
        if not isinstance(form.data, tuple):
            return forms.as_column(form.data, rows)
        second = rows if labels is None else labels
        return [forms.as_column(form.data[0], rows), forms.as_column(form.data[1], second)]
    if isinstance(example, Mapping):
        return {name: column(name, like) for name, like in example.items()}
    if forms.is_leaf(example):
        return column("", example)
    return [column("", like) for like in example]
