"""
How long ``python -m autoloader probe --json`` takes, as a multiple of ``python -c pass``.

Both commands run in turn, each 20 times, as whole processes; the ratio is that of their minimums. Run it on an
installed wheel: ``python -m tox run -e bench``.
"""

import argparse
import json
import subprocess
import sys
import time

NOTHING = (sys.executable, "-c", "pass")
PROBE = (sys.executable, "-m", "autoloader", "probe", "--json")


def seconds(command: tuple[str, ...]) -> float:
    """
    Return how long one run of *command* takes.
    """
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def measure(runs: int) -> dict[str, float]:
    """
    Return the minimums of both commands, and their ratio; the first run of each is not counted.
    """
    seconds(NOTHING), seconds(PROBE)
    pairs = [(seconds(NOTHING), seconds(PROBE)) for _ in range(runs)]
    nothing, probe = (min(column) for column in zip(*pairs, strict=True))
    again = min(seconds(NOTHING) for _ in range(runs))
    return {
        "runs": runs,
        "pass_seconds": nothing,
        "probe_seconds": probe,
        "ratio": probe / nothing,
        "control_ratio": again / nothing,
    }


def main() -> None:
    """
    Print the measurement as JSON.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    print(json.dumps(measure(parser.parse_args().runs), indent=2))


if __name__ == "__main__":
    main()
