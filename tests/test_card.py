"""Results in a notebook."""

import dpassay as da
from dpassay._card import card


def test_nothing_is_taken_for_markup():
    shown = card("<b>", [("<i>", "<script>"), ("empty", "")])
    assert "<b>" not in shown
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "empty" not in shown


def test_a_bound_and_a_verdict_say_what_their_texts_say():
    shown = {}
    for scale in (0.2, 1.3):
        verdict = da.audit(
            lambda data, rng: data + rng.laplace(scale=scale),  # noqa: B023
            (1.0, 0.0),
            claim=da.PureDP(1.0),
            score=float,
            trials=60,
            progress="quiet",
        )
        shown[scale] = verdict._repr_html_()
        assert verdict.next_step in shown[scale]
        assert 'Confidence</th><td style="text-align:left">0.95' in verdict.bound._repr_html_()
    assert "Refuted" in shown[0.2]
    assert "Fell" in shown[0.2]
    assert "Not refuted" in shown[1.3]


def test_what_is_no_bound_says_so():
    bound = da.LowerBound(1.0, 0.0, 0.95, "largest of all", valid=False)
    assert "NOT A BOUND" in bound._repr_html_()
