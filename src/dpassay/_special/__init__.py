"""Numbers on the safe side of the truth: margins, searches and inverses that check themselves.

A bound is a statement about real numbers, computed with floats. Each part of this leaf keeps it
true. ``margins`` says by how much a float may be off, and moves it to the safe
side. ``search`` finds where a monotone condition changes and returns the side
on which it was seen to hold. ``quantiles`` inverts distribution functions
and puts every answer back into the forward function.

**The policy for rounding.** Each source of error has one margin:

========================  ======  ==================================================================
name                      size    what it covers
========================  ======  ==================================================================
``UNIT``, ``ULP``         2^-53   one operation; ULP is twice that, from 1 to the next float
``CLOSED_FORM``           64 u    a formula of the accountants: thirty operations, of which none
                                  cancels
``ARITHMETIC``            1e-12   a formula: up to a thousand operations, exp and log of numbers up
                                  to 700, and differences of terms, relative to the largest term
``TAIL``                  1e-8    a probability from a library (``betainc``, ``gammainc``), relative
``NUMERICAL``             1e-8    a sum over a grid, a Fourier transform, or a search that was
                                  stopped: whatever has no better error bound of its own
========================  ======  ==================================================================

The rules:

1. What is *published as a bound* is rounded once, at the end, with ``round_up`` or ``round_down``
   and the margin of the largest source that it went through. Intermediate results are not rounded.
2. What is *inverted* is asked for at a level that is smaller by twice the margin of the forward
   function, and the answer is put back: its tail must lie within one margin of that smaller level.
   So the true tail is at most the level (the limit is valid), and it is at least the level less
   four margins (the limit is tight). Where the library fails this, a bisection replaces its answer.
3. What is *compared* (a violation of a claim, a p-value against a level) counts only if it is
   exceeded by more than the margin.
4. A margin is never used to hide a cancellation: a difference of nearly equal numbers is rewritten
   (``log1p``, ``expm1``, the smaller of two tails), because no fixed margin covers it.
5. *Upper bounds that others compare*: "best" takes the minimum of several accountants, which is an
   upper bound only if each float in it is one. So each adds its margin before the number leaves the
   function that computed it (``up``, ``exp_up``, or an error that is computed beside the formula,
   from the sizes of its terms, where an exponent is large), and nobody downstream adds one for what
   happened upstream. A positive number is at least ``LEAST``; a true 0 stays 0.
6. The epsilon at a given delta is right if putting it back into the *rounded-up* forward function
   gives at most that delta, met to a relative ``REQUEST``. Monotone functions of an uncertain
   argument are evaluated at its unfavourable end.
7. Not margins, and free to be chosen: where a search starts and stops (``within``, ``absolute``),
   nodes of grids, orders, tilts and shares of a level. They decide how close a bound comes. It is
   valid for any choice, because what is returned was seen to hold, or because every choice gives a
   bound.

How large the library's errors are was measured against mpmath: ``docs/numerics.md``. The tails are
off by at most 3e-10 for up to 2e9 trials and tails down to 1e-250, a thirtieth of ``TAIL``; beyond
that range the library is not asked, and Chernoff's inequality answers instead.
"""
