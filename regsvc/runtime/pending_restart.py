"""Changes of config files that take effect at the next start."""

import logging
from itertools import chain

log = logging.getLogger(__name__)


class PendingRestart:
    """Keys that have changed in a config file and take effect at the next start. Use on the event loop only."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[str, ...]] = {}

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the keys in all files, or a few words where there is no single key."""
        return tuple(chain.from_iterable(self._keys.values()))

    def set(self, file: str, keys: tuple[str, ...], *, is_requested: bool = False) -> None:
        """Replace the keys of one file. Log what has changed; with `is_requested` also if nothing has."""
        before, self._keys[file] = self._keys.get(file, ()), keys
        if keys and (is_requested or keys != before):
            log.warning(
                "%s has changed; these keys take effect after a restart of the companion (systemctl restart "
                "companion): %s",
                file,
                ", ".join(keys),
            )
        elif before and not keys:
            log.info("%s: the restart of the companion is not needed any more", file)
