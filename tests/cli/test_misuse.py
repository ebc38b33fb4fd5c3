"""Each bad value: exit code 2, the argument named, one line, no traceback, nothing on stdout."""

import pytest

SGD = {"noise-multiplier": "1", "sampling-rate": ".01", "steps": "10", "delta": "1e-5"}
TARGET = {"epsilon": "1", "delta": "1e-5"}
COUNTS = {"tp": "90", "fn": "10", "fp": "5", "tn": "95"}
COMMANDS = {
    "account dp-sgd": SGD,
    "account gaussian": {"noise-multiplier": "1", "count": "2", "delta": "1e-5"},
    "account laplace": {"noise-multiplier": "1", "count": "2", "epsilon": "1"},
    "account pure": {"epsilon-each": "1", "delta": "0"},
    "account approx": {"epsilon-each": "1", "delta-each": "1e-6", "delta": "1e-5"},
    "account exponential": {"epsilon-each": "1", "delta": "1e-5"},
    "account zcdp": {"rho": "1", "delta": "1e-5"},
    "account randomized-response": {"noise-probability": ".5", "categories": "2", "delta": "0"},
    "calibrate dp-sgd": TARGET | {"sampling-rate": ".01", "steps": "10"},
    "calibrate gaussian": TARGET,
    "calibrate laplace": {"epsilon": "1", "delta": "0"},
    "explain": {"epsilon": "1", "delta": "1e-5", "prior": ".5"},
    "bound": COUNTS | {"delta": "1e-5", "confidence": ".95"},
}
NOISE, RATE, WHOLE = ("0", "-1", "nan", "inf", "x"), ("0", "1.2", "nan", "x"), ("0", "-3", "1.5")
BAD = {
    "noise-multiplier": NOISE,
    "sampling-rate": RATE,
    "steps": WHOLE,
    "count": WHOLE,
    "delta": ("-1e-9", "1", "2", "nan"),
    "delta-each": ("-1e-9", "1", "nan"),
    "epsilon": ("-1", "nan"),
    "epsilon-each": ("-1", "nan", "inf"),
    "rho": ("-1", "nan", "inf"),
    "noise-probability": ("0", "1.5", "nan"),
    "categories": ("1", "0"),
    "prior": ("0", "1", "-1", "nan"),
    "confidence": ("0", "1", "nan"),
    "tp": ("-1", "1.5", "x"),
    "fn": ("-1",),
    "fp": ("-1",),
    "tn": ("-1",),
}
CASES = [
    (command, option, bad)
    for command, options in COMMANDS.items()
    for option in options
    for bad in BAD[option]
]


def _line(command, options):
    return command + "".join(f" --{name}={value}" for name, value in options.items())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_good_values_are_good(dpassay, command):
    assert dpassay(_line(command, COMMANDS[command]) + " --json").code == 0


@pytest.mark.parametrize(("command", "option", "bad"), CASES)
def test_a_bad_value_is_named(dpassay, command, option, bad):
    result = dpassay(_line(command, COMMANDS[command] | {option: bad}))
    assert result.code == 2
    named = option.removesuffix("-each").replace("-", "_")  # the event calls it epsilon
    assert named in result.err.replace("-", "_")
    assert "Traceback" not in result.err
    assert result.out == ""
    if result.err.startswith("dpassay: "):  # ours; the other form is that of unknown options
        assert result.err.count("\n") == 1
        said = result.err.replace("_each", "")
        assert f"{named}={bad}" in said or f"{named}={float(bad):g}" in said


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("account dp-sgd --noise-multiplier 1 --sampling-rate .01 --steps 10", "--delta"),
        ("account gaussian --noise-multiplier 1 --delta 1e-5 --epsilon 1", "exactly one"),
        ("account gaussian --noise-multiplier 1 --delta 1e-5 --method best2", "method='best2'"),
        ("account gaussian --noise-multiplier 1 --delta 1e-5 --method optimal", "optimal"),
        ("account gaussian --noise-multiplier 1 --delta 1e-5 --neighbouring x", "neighbouring='x'"),
        (
            "account dp-sgd --noise-multiplier 1 --sampling-rate .1 --steps 2 --delta 0 --scheme x",
            "scheme",
        ),
        ("calibrate dp-sgd --epsilon 1 --delta 0 --sampling-rate .01 --steps 10", "delta=0"),
        ("calibrate gaussian --epsilon 1 --delta 0", "delta=0"),
        ("calibrate gaussian --epsilon 1 --delta 1e-5 --method gdp-clt", "method='gdp-clt'"),
        ("explain", "--epsilon"),
        ("explain --epsilon 1 --mu 1", "exactly one"),
        ("explain --mu 1 --delta .1", "delta=0.1"),
        ("explain --mu nan", "mu=nan"),
        ("explain --mu -1", "mu=-1"),
        ("bound --tp 1 --fn 2", "--fp, --tn"),
        ("bound --tp 0 --fn 0 --fp 1 --tn 1", "tp + fn=0"),
        ("bound --tp 1 --fn 1 --fp 1 --tn 1 --one-run", "--one-run"),
        ("reproduce nothing", "name='nothing'"),
        ("reproduce slides --format pdf", "image_format='pdf'"),
        ("reproduce hw3 --figure 4.1", "--figure is of no use for name='hw3'"),
        ("reproduce slides --literal", "--literal is of no use"),
        ("reproduce slides --data mnist", "--data is of no use for name='slides'"),
        ("reproduce slides --out /dev/null/x", "Check the path, or name another one"),
        ("reproduce hw3 --full", "--full is of no use for name='hw3'"),
        ("reproduce synth --full --quick", "--full and --quick cannot both be given"),
        ("reproduce thesis --figure 9", "figure='9' must be one of '4.1'"),
        ("frobnicate", "frobnicate"),
    ],
)
def test_what_does_not_go_together_is_named(dpassay, command, named):
    result = dpassay(command)
    assert result.code == 2
    assert named in result.err
    assert "Traceback" not in result.err


def test_batches_of_a_fixed_size_have_no_proof_under_add_remove(dpassay):
    sgd = "--noise-multiplier 1 --sampling-rate .01 --steps 10 --delta 1e-5"
    result = dpassay(f"account dp-sgd {sgd} --scheme without-replacement")
    assert result.code == 2
    assert "must be 'replace-one'" in result.err
    assert dpassay(f"account dp-sgd {sgd} --neighbouring replace-one").code == 0
