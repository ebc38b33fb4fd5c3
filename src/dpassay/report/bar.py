"""Proved, claimed, measured and the ceiling on one axis, as SVG whose text keeps its size.

Places are given in per cent of the width, so that the picture fits a phone and a sheet alike.
"""

import math
from html import escape
from typing import Any

from dpassay.report.words import down, small, up

_LEFT, _RIGHT = 0.5, 92.0  # per cent of the width that the axis takes
_ROW, _TOP = 46, 4
_STEPS = (1, 2, 5)

_Row = tuple[str, str, float | None, str, str]


def epsilon_bar(epsilon: dict[str, Any]) -> str:
    """The bar as SVG, with title and description."""
    rows = _rows(epsilon)
    end = _end([value for _, _, value, _, _ in rows])
    height = _TOP + _ROW * len(rows) + 30
    drawn = "\n".join(_row(row, _TOP + _ROW * i, end) for i, row in enumerate(rows))
    said = "; ".join(f"{label}: {text}" for label, text, *_ in rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="100%" height="{height}" role="img" '
        'aria-labelledby="title desc" font-size="14">\n'
        f'<title id="title">Epsilon at delta {small(float(epsilon["delta"]))}</title>\n'
        f'<desc id="desc">{escape(said)}.</desc>\n'
        f"{drawn}\n{_axis(_TOP + _ROW * len(rows), end)}\n</svg>"
    )


def _rows(epsilon: dict[str, Any]) -> list[_Row]:
    """Label, value in words, value, colour and shape of each row."""
    proved, ceiling = epsilon["proved_upper"], float(epsilon["ceiling"])
    claimed, measured = float(epsilon["claimed"]), float(epsilon["measured_lower"])
    proof = None if proved is None else float(proved)
    said = "no proof was given" if proof is None else f"ε ≤ {up(proof)}"
    return [
        ("Proved, at most", said, proof, "#222222", "solid"),
        ("Claimed", f"ε = {up(claimed)}", claimed, "#0072b2", "solid"),
        ("Measured, at least", f"ε ≥ {down(measured)}", measured, "#b3261e", "full"),
        ("Ceiling of the audit", _at_most(ceiling), ceiling, "#666666", "dashed"),
    ]


def _at_most(ceiling: float) -> str:
    return "no limit" if math.isinf(ceiling) else f"ε ≥ {down(ceiling)}"


def _end(values: list[float | None]) -> float:
    """The end of the axis: beyond all finite values, but not for the sake of a far ceiling."""
    *main, ceiling = [x if x is not None and math.isfinite(x) else 0.0 for x in values]
    longest = max(main)
    shown = max(longest, min(ceiling, 4 * longest if longest > 0 else ceiling))
    return 1.05 * shown if shown > 0 else 1.0


def _place(value: float, end: float) -> float:
    return _LEFT + (_RIGHT - _LEFT) * min(value / end, 1.0)


def _row(row: _Row, top: int, end: float) -> str:
    label, said, value, colour, shape = row
    text = (
        f'<text x="{_LEFT}%" y="{top + 15}"><tspan font-weight="600">{escape(label)}:</tspan> '
        f"{escape(said)}</text>"
    )
    if value is None:
        return text
    beyond = value > end
    at = 99.0 if beyond else _place(value, end)
    return f"{text}\n{_bar(top + 22, at, colour, shape)}\n{_tip(top + 22, at, colour, beyond)}"


def _bar(top: int, at: float, colour: str, shape: str) -> str:
    if shape == "full":
        return (
            f'<rect x="{_LEFT}%" y="{top}" width="{at - _LEFT:.3f}%" height="14" fill="{colour}"/>'
        )
    dashes = ' stroke-dasharray="3 4"' if shape == "dashed" else ""
    return (
        f'<line x1="{_LEFT}%" x2="{at:.3f}%" y1="{top + 7}" y2="{top + 7}" stroke="{colour}" '
        f'stroke-width="2.5"{dashes}/>'
    )


def _tip(top: int, at: float, colour: str, beyond: bool) -> str:
    """A stroke where the value lies, an arrow where it is beyond the axis."""
    shape = "M-7 1L0 7L-7 13" if beyond else "M0 0V14"
    return (
        f'<svg x="{at:.3f}%" y="{top}" width="1" height="1" overflow="visible"><path d="{shape}" '
        f'fill="none" stroke="{colour}" stroke-width="3"/></svg>'
    )


def _axis(top: int, end: float) -> str:
    step = _step(end)
    marks = "".join(_tick(top, step * i, end) for i in range(int(end / step) + 1))
    name = f'<text x="99%" y="{top + 22}" font-size="12" fill="#444444" text-anchor="end">ε</text>'
    line = f'<line x1="{_LEFT}%" x2="{_RIGHT}%" y1="{top + 2}" y2="{top + 2}" stroke="#666666"/>'
    return line + marks + name


def _tick(top: int, x: float, end: float) -> str:
    at, anchor = f"{_place(x, end):.3f}%", "middle" if x else "start"
    return (
        f'<line x1="{at}" x2="{at}" y1="{top + 2}" y2="{top + 7}" stroke="#666666"/>'
        f'<text x="{at}" y="{top + 22}" font-size="12" fill="#444444" text-anchor="{anchor}">'
        f"{x:g}</text>"
    )


def _step(end: float) -> float:
    """A round step that gives four to nine ticks."""
    power = 10.0 ** math.floor(math.log10(end / 4))
    return max(factor * power for factor in _STEPS if factor * power <= end / 4)
