"""A process that plays a run on a log, to be killed: ``player.py store workers trials [diary]``.

It prints how the run ended, as JSON. With a diary, every trial that is begun is noted there.
"""

import json
import os
import sys
import time

from dpassay._rng import for_trial
from dpassay.runs import play

KEY = "the run"
SECONDS = 0.01


def outcome(trial):
    if trial % 13 == 5:
        raise ValueError(f"trial {trial} always fails")
    return for_trial(3, trial).normal()


class Slow:
    """A trial takes a while, so that there is time to kill it."""

    def __init__(self, diary=None, seconds=SECONDS):
        self.diary, self.seconds = diary, seconds

    def __call__(self, trials):
        if self.diary is not None:
            for trial in trials:
                note(self.diary, f"{trial} {os.getpid()}")
        time.sleep(self.seconds * len(trials))
        return [outcome(trial) for trial in trials]


def note(diary, text):
    """Append a line in one write, which other processes cannot split."""
    file = os.open(diary, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{text}\n".encode())
    os.close(file)


def main(store, workers, trials, diary=None):
    # By value, because worker processes cannot import a script.
    played = play(Slow(diary), int(trials), key=KEY, store=store, workers=int(workers))
    scores = [score.hex() for score in played.outcomes.scores.tolist()]
    print(json.dumps({"ended": played.ended, "scores": scores, "deaths": played.n_deaths}))


if __name__ == "__main__":
    main(*sys.argv[1:])
