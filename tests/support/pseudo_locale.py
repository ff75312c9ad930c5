"""A language that only tests speak: English with long vowels, 40 % longer, to find texts that have no room to grow."""

import json
import re
from pathlib import Path

from regsvc.core.i18n import read_built_in_texts

PSEUDO_LANGUAGE = "en-xa"
GROWTH = 1.4


def write_pseudo_locale(folder: Path) -> None:
    """Write a translation file with all texts into a host's folder."""
    texts = read_built_in_texts()["en"]
    lines = (f"{key} = {json.dumps(lengthen(text), ensure_ascii=False)}" for key, text in texts.items())
    (folder / f"{PSEUDO_LANGUAGE}.toml").write_text("\n".join(lines), encoding="utf-8")


def lengthen(text: str) -> str:
    """Return the text with longer words; `{names}` stay."""
    parts = re.split(r"(\{\w*\})", text)
    longer = "".join(
        part if index % 2 else re.sub("[aeiou]", lambda vowel: vowel[0] * 2, part) for index, part in enumerate(parts)
    )
    return longer + "o" * (round(len(text) * GROWTH) - len(longer))
