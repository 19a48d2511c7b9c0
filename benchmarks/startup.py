"""How long `agon` takes to answer: two checkouts side by side, each with its own .venv, as ratios.

    python benchmarks/startup.py PATH_OF_THE_OTHER_CHECKOUT [--repeats 7]

The two take turns, so that a busy machine slows both alike; the middle of the repeats counts. A command is
timed to its end, `agon train` to the first byte that it prints, after which it is killed.
"""

import argparse
import os
import select
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parents[1]
COMMANDS = {
    "agon --help": ["--help"],
    "agon train --help": ["train", "--help"],
    "a typo": ["train", "--lerning_rate", "1e-5"],
    "a missing recipe": ["train", "nowhere.yaml"],
    "a wrong value": ["train", "--learning_rate", "-1"],
}
FIRST_LINE = "first line of agon train"


def seconds_to_the_end(checkout: Path, words: list[str], folder: str) -> float:
    began = time.perf_counter()
    subprocess.run(
        [checkout / ".venv/bin/python", "-m", "agon.cli", *words],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    return time.perf_counter() - began


def seconds_to_the_first_byte(checkout: Path, folder: str) -> float:
    """From the start of `agon train` to anything on standard output or standard error."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [checkout / ".venv/bin/python", "-m", "agon.cli", "train"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # its workers end with it
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    select.select([process.stdout, process.stderr], [], [])
    took = time.perf_counter() - began
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("other", type=Path, help="the checkout to compare with")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    checkouts = {"before": arguments.other.resolve(), "now": HERE}
    took: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(arguments.repeats):
            for name, words in COMMANDS.items():
                for which, checkout in checkouts.items():
                    took.setdefault((name, which), []).append(seconds_to_the_end(checkout, words, folder))
            for which, checkout in checkouts.items():
                took.setdefault((FIRST_LINE, which), []).append(seconds_to_the_first_byte(checkout, folder))
    print(
        f"| what | before, s | now, s | before / now |\n| --- | --- | --- | --- |  ({arguments.repeats} repeats)"
    )
    for name in (*COMMANDS, FIRST_LINE):
        before, now = (statistics.median(took[name, which]) for which in checkouts)
        print(f"| {name} | {before:.2f} | {now:.2f} | {before / now:.1f} |")


if __name__ == "__main__":
    main()
