import pytest

import dpassay as da
from dpassay.auditing.claims import parse_claim
from dpassay.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "curve"),
    [
        ("3", da.PureDP(3.0)),
        (" 3,1e-5", da.ApproxDP(3.0, 1e-5)),
        ("gdp:1.0", da.GDP(1.0)),
        ("rho:0.1", da.ZCDP(0.1)),
    ],
)
def test_short_claims(text, curve):
    assert parse_claim(text) == curve


def test_dp_sgd():
    claim = parse_claim("dp-sgd:noise_multiplier=1,sampling_rate=.01,steps=1000")
    assert claim.method == "pld"
    assert claim.epsilon(1e-5) == pytest.approx(1.828, abs=1e-3)
    full = parse_claim("dp-sgd:noise_multiplier=2,sampling_rate=1,steps=4")
    assert full.mu == pytest.approx(1.0)


def test_neighbouring_is_kept():
    assert parse_claim("1,1e-5", neighbouring="replace-one").neighbouring == "replace-one"


BAD = """| x | 1,2,3 | -1 | 1,1 | nan | mu:1 | gdp: | gdp:-1 | rho:nan | dp-sgd:steps=3
| dp-sgd:noise_multiplier=0,sampling_rate=.1,steps=3
| dp-sgd:noise_multiplier=1,sampling_rate=2,steps=3"""


@pytest.mark.parametrize("text", [part.strip() for part in BAD.split("|")])
def test_bad_claims(text):
    with pytest.raises(InvalidArgument):
        parse_claim(text)
