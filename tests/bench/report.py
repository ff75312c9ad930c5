"""docs/benchmarks.md: each command rewrites its own section and leaves the others."""

import platform
from collections.abc import Sequence
from datetime import date

from tests.support.quick_start import REPOSITORY

FILE = REPOSITORY / "docs" / "benchmarks.md"


def write_section(title: str, lines: Sequence[tuple[str, str, str]]) -> str:
    """Replace the section of this kind and return its text; each line is (measurement, target, result)."""
    text = "\n".join(
        [
            f"## {title}",
            "",
            f"Written by `make bench-sync` on {date.today().isoformat()}: Python {platform.python_version()}, "  # noqa: DTZ011
            f"MariaDB, {platform.machine()}. Only the ratios apply to other machines.",
            "",
            "| measurement | target | result |",
            "|---|---|---|",
            *(f"| {measurement} | {target} | {result} |" for measurement, target, result in lines),
            "",
        ]
    )
    kind = title.split(" over ")[0]
    kept = [section for section in sections() if not section.startswith(f"## {kind}")]
    FILE.write_text("\n".join([*kept, text]), encoding="utf-8")
    return text


def sections() -> list[str]:
    """Return the file's text in parts: everything before the first section, then each section."""
    if not FILE.exists():
        return []
    head, *rest = FILE.read_text(encoding="utf-8").split("\n## ")
    return [head.rstrip("\n") + "\n", *(f"## {section.rstrip()}\n" for section in rest)]
