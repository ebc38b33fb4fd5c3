"""Ridge and Huberised ridge, solved without noise: what output perturbation starts from."""

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import linalg

from dpassay.errors import DpassayError
from dpassay.optim.products import some_rows, sum_of_pieces
from dpassay.types import FloatArray

_DENSE = 1000  # features up to which a Newton step solves by factorising


def plain_ridge(A: Any, y: FloatArray, alpha: float) -> FloatArray:
    """The minimiser of ||Aw - y||² + alpha ||w||², from the normal equations; not private."""
    return np.linalg.solve(gram_matrix(A) + alpha * np.eye(A.shape[1]), products_with(A, y))


def gram_matrix(A: Any) -> FloatArray:
    """A'A, dense, summed in pieces so that its rounding is known (``products.sum_error``)."""

    def of_part(part: slice) -> FloatArray:
        B = some_rows(A, part)
        return (B.T @ B).toarray() if sparse.issparse(B) else B.T @ B

    return sum_of_pieces(of_part, A.shape[0])


def products_with(A: Any, values: FloatArray) -> FloatArray:
    """A'values, summed in pieces so that its rounding is known (``products.sum_error``)."""
    return sum_of_pieces(lambda part: some_rows(A, part).T @ values[part], A.shape[0])


def huber_ridge(
    A: Any, y: FloatArray, alpha: float, threshold: float, tolerance: float
) -> FloatArray:
    """The minimiser of sum h(a_i'w - y_i) + alpha ||w||², to a gradient of norm ``tolerance``.

    Newton's method with halved steps: F is piecewise quadratic and strongly convex, so that it
    ends after finitely many steps, on the right piece. Not private.

    Raises:
        DpassayError: rounding keeps the gradient above the tolerance; nothing was released.

    """
    w = np.zeros(A.shape[1])
    value, gradient, inside = huber_objective(A, y, alpha, threshold, w)
    for _ in range(200):
        if float(np.linalg.norm(gradient)) <= tolerance:
            return w
        step = _newton_step(A, inside, alpha, gradient)
        slope = float(gradient @ step)
        length = 1.0
        while length > 1e-10:
            found = huber_objective(A, y, alpha, threshold, w + length * step)
            # Rounding hides the decrease near the end, where a smaller gradient is as good.
            if found[0] <= value + 1e-4 * length * slope or np.linalg.norm(found[1]) <= tolerance:
                break
            length /= 2
        w = w + length * step
        value, gradient, inside = found
    raise DpassayError(
        f"the solver stopped at a gradient of norm {np.linalg.norm(gradient):.2e}, above the "
        f"{tolerance:.2e} that its sensitivity allows for. Nothing was released; a larger alpha "
        "makes the problem easier."
    )


def huber_objective(
    A: Any, y: FloatArray, alpha: float, threshold: float, w: FloatArray
) -> tuple[float, FloatArray, Any]:
    """F, its gradient, and which residuals are within the threshold; not private."""
    residuals = A @ w - y
    clipped = np.clip(residuals, -threshold, threshold)
    value = float(clipped @ (2 * residuals - clipped) + alpha * (w @ w))
    return value, 2 * (products_with(A, clipped) + alpha * w), np.abs(residuals) <= threshold


def _newton_step(A: Any, inside: Any, alpha: float, gradient: FloatArray) -> FloatArray:
    B = A[inside]
    d = A.shape[1]
    if d <= _DENSE:
        gram = B.T @ B
        gram = gram.toarray() if sparse.issparse(gram) else gram
        return -np.linalg.solve(gram + alpha * np.eye(d), gradient / 2)
    curvature: Any = linalg.LinearOperator
    curvature = curvature((d, d), matvec=lambda v: B.T @ (B @ v) + alpha * v, dtype=np.float64)
    return -linalg.cg(curvature, gradient / 2, rtol=1e-6, maxiter=500)[0]
