"""The text that AuthMe shows to players who have no account, from its `messages` folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plugin_bridge.authme.config import AuthMeConfig, AuthMeConfigError, ConfigDocument, load_yaml

KICKED: Final = "registration.reg_only"
"""Shown when AuthMe refuses players without an account (`kickNonRegistered`)."""
ASKED: Final = "registration.register_request"
"""Shown in the chat to players without an account whom AuthMe lets in."""

_FALLBACK_LANGUAGE: Final = "en"


@dataclass(frozen=True, slots=True)
class StrangersText:
    """The text for players without an account: `key` of `file` (`messages/messages_en.yml` and the like)."""

    file: Path
    key: str
    text: str


def find_strangers_text(config: AuthMeConfig) -> StrangersText | None:
    """Return the text for players without an account.

    None if they may play, or if there is no such text, as before AuthMe's first start and before version 5.5.
    """
    if config.source is None or not (config.kick_non_registered or config.forces_registration):
        return None
    key = KICKED if config.kick_non_registered else ASKED
    for language in (config.messages_language, _FALLBACK_LANGUAGE):
        file = config.source.parent / "messages" / f"messages_{Path(language).name}.yml"
        try:
            text = ConfigDocument(load_yaml(file)).find(key)
        except AuthMeConfigError:
            continue  # AuthMe takes the other file if there is none
        return StrangersText(file, key, text) if isinstance(text, str) else None
    return None
