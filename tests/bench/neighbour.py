"""A busy neighbour: `python -m tests.bench.neighbour SECONDS` computes for so long and prints how much it got done."""

import sys
import time


def main(seconds: float) -> int:
    rounds, ends_at = 0, time.monotonic() + seconds
    while time.monotonic() < ends_at:
        sum(range(10_000))
        rounds += 1
    return rounds


if __name__ == "__main__":
    print(main(float(sys.argv[1])))
