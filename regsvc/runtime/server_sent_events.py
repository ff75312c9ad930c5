"""The format of server-sent events, as browsers read it."""

from typing import Any, Final

import msgspec

PREAMBLE: Final = b"retry: 3000\n\n"
HEARTBEAT: Final = b": still here\n\n"


def encode_event(name: str, data: Any, number: int | None = None) -> bytes:
    """Encode an event with its data as JSON; `number` is what a client that reconnects says it received last."""
    prefix = b"" if number is None else b"id: %d\n" % number
    return prefix + b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
