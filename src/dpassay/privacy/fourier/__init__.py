"""The Fourier accountant: upper bounds for many sampled Gaussian steps, in milliseconds at any T.

The loss of one step is rounded up to some hundred nodes (:mod:`~dpassay.privacy.fourier.laws`); its
cumulant generating function, times the number of steps, is computed on a line in the complex plane
(:mod:`~dpassay.privacy.fourier.transform`); delta is a sum along that line
(:mod:`~dpassay.privacy.fourier.inversion`), which is chosen for each range of epsilon
(:mod:`~dpassay.privacy.fourier.direction`). The first three modules bound every error, of
discretisation, infinite losses, smoothing, truncation and rounding, and add it; the last only
decides how tight the bound is.
"""

from dpassay.privacy.fourier.curve import Fourier, price_gaussians

__all__ = ["Fourier", "price_gaussians"]
