"""What a DP-SGD training promises, what it means, and the noise for a stronger promise.

Run it with ``python examples/price_a_training.py``.
"""

import dpassay as da
from dpassay.privacy.membership import attack_limits, odds_of_curve
from dpassay.report.numbers import up

DELTA = 1e-5
RATE, STEPS = 0.01, 1000


def training(noise_multiplier: float) -> da.privacy.Event:
    return da.dp_sgd_event(noise_multiplier, sampling_rate=RATE, steps=STEPS)


def main() -> None:
    for method in ("pld", "rdp", "gdp-clt"):
        curve = da.account(training(1.0), method)
        print(f"{method:8} epsilon {up(curve.epsilon(DELTA))} ({curve.kind})")

    curve = da.account(training(1.0), "pld")
    odds, limits = odds_of_curve(curve), attack_limits(curve, fpr=0.001)
    print(f"point to you, of 100: {100 * odds.if_out:.0f} if out, {100 * odds.if_in:.0f} if in")
    print(f"true-positive rate at a false-positive rate of 0.001: at most {up(limits.tpr, 3)}")

    for epsilon in (0.5, 1.0, 3.0):
        noise = da.calibrate(training, target=da.ApproxDP(epsilon, DELTA))
        print(f"epsilon {epsilon:g} needs a noise multiplier of {up(noise)}")


if __name__ == "__main__":
    main()
