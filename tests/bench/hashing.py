"""The bare hash in a process of its own: `python -m tests.bench.hashing ALGORITHM BCRYPT_COST THREADS SECONDS`.

Prints how many passwords are verified per second, and the CPU seconds of one.
"""

import sys
import threading
import time

from plugin_bridge.hashers import HashedPassword, HashingConfig, PasswordHasher, make_password_hasher
from tests.bench.login_load import PASSWORD


def hasher_of(algorithm: str, bcrypt_cost: int) -> PasswordHasher:
    """Return what the daemon uses for this config of AuthMe's."""
    return make_password_hasher(HashingConfig(password_hash=algorithm, bcrypt_log2_rounds=bcrypt_cost))


def main(algorithm: str, cost: int, threads: int, seconds: float) -> tuple[float, float]:
    hasher = hasher_of(algorithm, cost)
    stored = hasher.configured.hash(PASSWORD, "player")
    counts = [0] * threads
    ends_at = time.monotonic() + seconds

    def verify_until_the_end(number: int) -> None:
        while time.monotonic() < ends_at:
            assert hasher.verify(PASSWORD, HashedPassword(stored.hash, stored.salt), "player")
            counts[number] += 1

    began, cpu = time.monotonic(), time.process_time()
    running = [threading.Thread(target=verify_until_the_end, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(counts) / (time.monotonic() - began), (time.process_time() - cpu) / sum(counts)


if __name__ == "__main__":
    print(*main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
