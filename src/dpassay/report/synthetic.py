"""The page of a synthetic table: what was promised and, for its owner, how close it came.

Without the owner's numbers the page holds what was promised, the domain that was released and what
was paid for readers; nothing else is computed from the true table. With them it says so, and shows
the true table beside the synthetic one.
"""

import html
from typing import Any

from dpassay.report.numbers import up
from dpassay.report.page import NOTHING_FETCHED, bullets, document, figure, inline, paragraphs
from dpassay.report.page import table as html_table

OWNERS_EYES = (
    "Not private: these errors were computed from the true table without noise. For the owner's "
    "eyes; do not publish them with the synthetic table."
)
COLUMN_NUMBERS = ("mean", "synthetic mean", "deviation", "synthetic deviation")
_MOST_PAIRS = 15


def promise_in_words(data: dict[str, Any]) -> str:
    """The sentence of a promise."""
    if not data["private"]:
        return "NOT private: a seed was given, so that whoever knows it can take the noise off."
    return (
        f"({up(data['epsilon'])}, {data['delta']:.3g})-DP for neighbours by {data['neighbouring']}"
        f"; taken as public: {', '.join(data['public'])}."
    )


def number(value: float | None) -> str:
    """A number for people; nothing where there is none."""
    return "" if value is None else f"{value:.4g}"


def page_of(
    data: dict[str, Any],
    domain: dict[str, Any],
    told: dict[str, Any] | None,
    found: dict[str, Any] | None,
    attacked: str | None = None,
) -> str:
    """One page of HTML.

    Args:
        data: what was promised.
        domain: the columns, and what was paid for measuring their domains.
        told: what readers may know of the quality, if that was paid for.
        found: the owner's numbers, which make it a page for the owner.
        attacked: what attacks on the table found, as HTML; for the owner too.

    """
    from dpassay.privacy import ApproxDP, PureDP
    from dpassay.report import odds

    epsilon, delta = data["epsilon"], data["delta"]
    claim = ApproxDP(epsilon, delta) if delta > 0 else PureDP(epsilon)
    facts = [
        ("method", data["method"]),
        ("noise", data["noise"]),
        ("neighbours", data["neighbouring"]),
        ("taken as public", ", ".join(data["public"])),
    ]
    parts = [
        paragraphs(promise_in_words(data)),
        html_table(facts),
        "<h2>What that means for one person</h2>",
        figure(
            inline(odds.icons_svg(odds.explain(claim)), "odds"),
            "The most that the promise allows, if a person took part and if not.",
        ),
        "<h2>The domain</h2>",
        _show_domain(domain, data),
    ]
    if told is not None:
        parts += ["<h2>How close it is</h2>", _show_readers(told)]
    if found is not None:
        parts += ["<h2>How close it is (not private)</h2>", paragraphs(OWNERS_EYES)]
        parts += [_show_owners(found)]
    if attacked is not None:
        parts += ["<h2>Attacked (not private)</h2>", attacked]
    title = "A private synthetic table" if data["private"] else "A synthetic table, NOT private"
    return document(title, "\n".join(parts), head=NOTHING_FETCHED)


def _show_domain(domain: dict[str, Any], data: dict[str, Any]) -> str:
    """The columns with their kinds, and what was paid for domains that nobody declared."""
    rows = [
        (
            c["column"],
            c["kind"],
            str(c["size"]),
            "measured with noise" if c["measured"] else "declared",
        )
        for c in domain["columns"]
    ]
    shown = html_table(rows, head=("column", "kind", "values", "domain"))
    if domain["dropped"]:
        names = ", ".join(domain["dropped"])
        shown += paragraphs(f"Left out, since nothing stood out from the noise: {names}.")
    if domain["epsilon"] is None or not data["private"]:
        return shown
    return shown + paragraphs(
        f"Measuring domains alone costs epsilon = {up(domain['epsilon'])} at delta = "
        f"{data['delta']:.3g}; the promise above includes it. Values that few records have are not "
        "in a measured domain: texts count as other, numbers and days as the nearest one."
    )


def _show_readers(told: dict[str, Any]) -> str:
    """What was paid for, with its own resolution."""
    rows = [
        (c["column"], c["words"], f"{c['missing']:.3f}", f"{c['outside']:.3f}")
        for c in told["columns"]
    ]
    rows += [(f"rule: {r['rule']}", "", "", f"{r['broken']:.3f}") for r in told["rules"]]
    caption = (
        "Measured with noise, as part of the promise above. A share is known to "
        f"{told['resolution']:.2g}; of a distance that is below its resolution nothing else is "
        "known. Outside: the share of true values that the domain does not have, or of records "
        "that break the rule."
    )
    return html_table(rows, head=("column", "distance", "missing", "outside"), caption=caption)


def _show_owners(found: dict[str, Any]) -> str:
    parts = []
    if found["faults"]:
        parts += ["<h3>What came out badly</h3>", bullets(found["faults"])]
    rows = [_column_row(row) for row in found["columns"]]
    head = ("column", "distance", "mean", "synthetic", "deviation", "synthetic")
    head += ("missing", "synthetic", "outside")
    parts += [html_table(rows, head=head, caption="True beside synthetic, column by column.")]
    parts += [_draw_atoms(found["columns"]), _list_pairs(found), _list_answers(found)]
    if found["rules"]:
        broken = [(r["rule"], *(f"{x:.3%}" for x in r["broken"])) for r in found["rules"]]
        parts += [html_table(broken, head=("rule", "broken by true", "by synthetic records"))]
    if found["utility"]:
        scores = [(name, f"{score:.4f}") for name, score in found["utility"].items()]
        parts += [html_table(scores, head=("trained on", "score on true records"))]
    return "\n".join(parts)


def _column_row(row: dict[str, Any]) -> list[str]:
    moments = [number(row[key]) for key in COLUMN_NUMBERS]
    shares = [f"{row[key]:.3f}" for key in ("missing", "synthetic missing", "outside")]
    return [row["column"], f"{row['distance']:.3f}", *moments, *shares]


def _draw_atoms(columns: list[dict[str, Any]]) -> str:
    """Bars of the shares of the most frequent values: true above synthetic."""
    bars, y = [], 0
    for column in columns:
        bars.append(
            f'<text x="0" y="{y + 14}" font-weight="600">{html.escape(column["column"])}</text>'
        )
        y += 22
        for value, (true, drawn) in column["atoms"]:
            shown = html.escape(value if len(value) <= 24 else value[:23] + "…")
            bars.append(
                f'<text x="0" y="{y + 11}">{shown}</text>'
                f'<rect x="180" y="{y}" width="{420 * true:.1f}" height="6" fill="#1c1f23"/>'
                f'<rect x="180" y="{y + 7}" width="{420 * drawn:.1f}" height="6" fill="#8aa4c8"/>'
            )
            y += 18
        y += 8
    picture = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 610 {y}" font-size="11" role="img" '
        f'aria-label="shares of frequent values">{"".join(bars)}</svg>'
    )
    return figure(
        picture, "The most frequent values: true shares (dark), synthetic shares (light)."
    )


def _list_pairs(found: dict[str, Any]) -> str:
    rows = [
        (" and ".join(pair["columns"]), pair["measure"], *(f"{x:.3f}" for x in pair["strength"]))
        for pair in found["pairs"][:_MOST_PAIRS]
    ]
    caption = "Relations that differ most. Pearson, Spearman: correlations; cramer: Cramér's V."
    return html_table(rows, head=("columns", "measure", "true", "synthetic"), caption=caption)


def _list_answers(found: dict[str, Any]) -> str:
    rows = [
        (row["queries"], number(row["largest error"]), number(row["total variation"]))
        for row in found["by_columns"]
    ]
    caption = (
        f"Largest error {found['max_error']:.4f}, mean total variation "
        f"{found['mean_total_variation']:.4f}, as shares of the records."
    )
    return html_table(rows, head=("columns", "largest error", "total variation"), caption=caption)
