"""Every comparison, one after another: ``python -m benchmarks [--quick] [name ...]``."""

import argparse
import importlib
import inspect
import pkgutil

import benchmarks


def names() -> list[str]:
    """The comparisons in this folder."""
    return sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name[0] != "_")


def main() -> None:
    """Run those that were named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", nargs="*", choices=[*names(), []], help="which ones; all if none")
    parser.add_argument("--quick", action="store_true", help="fewer cases and repetitions")
    chosen = parser.parse_args()
    for name in chosen.name or names():
        task = importlib.import_module(f"benchmarks.{name}").main
        takes_quick = "quick" in inspect.signature(task).parameters
        print(f"\n== {name}", flush=True)
        task(quick=chosen.quick) if takes_quick else task()


if __name__ == "__main__":
    main()
