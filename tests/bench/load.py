"""A bounded load on loopback from its own process: `python -m tests.bench.load PORT PATHS_FILE SECONDS`.

Prints requests per second, then exits.
"""

import asyncio
import itertools
import sys
import time
from pathlib import Path

CONNECTIONS = 16


async def ask(port: int, paths: "itertools.cycle[str]", ends_at: float) -> int:
    """Send requests on one connection that is kept alive; return the number of replies, all with status 200."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answered = 0
    while time.monotonic() < ends_at:
        writer.write(f"GET {next(paths)} HTTP/1.1\r\nHost: bench\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        answered += 1
    writer.close()
    return answered


async def main(port: int, paths: list[str], seconds: float) -> float:
    """Return requests per second over all connections."""
    started = time.monotonic()
    ends_at = started + seconds
    shared = itertools.cycle(paths)
    answered = await asyncio.gather(*(ask(port, shared, ends_at) for _connection in range(CONNECTIONS)))
    return sum(answered) / (time.monotonic() - started)


if __name__ == "__main__":
    port, paths, seconds = int(sys.argv[1]), Path(sys.argv[2]).read_text().split(), float(sys.argv[3])
    print(round(asyncio.run(main(port, paths, seconds))))
