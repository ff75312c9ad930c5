"""docs/doctor.md, made from the checks: `python -m regsvc.cli.docs.doctor [--check]`."""

import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Final

from regsvc.cli.docs.generated_file import write_or_check
from regsvc.doctor.checkup import CHECKS
from regsvc.doctor.facts.facts import FixLocation
from regsvc.doctor.finding import Check

DOCTOR_FILE: Final = Path(__file__).resolve().parents[3] / "docs" / "doctor.md"

_HEAD: Final = """\
# What the doctor finds

Written by `make sample`; the checks stand in `regsvc/doctor/`.

`companion doctor` looks at the config, the game server's files, AuthMe's table, our own tables and the machine, and
says in plain sentences what is wrong or risky, why, and what to change where. It changes nothing: SQLite files are
opened read-only, no table is made or migrated, no key is made. What the login may do on MySQL and MariaDB it finds out
by statements that are explained instead of run, or that cannot succeed; a query log has them, with tables called
`regsvc_probe_…` and `regsvc_none_…`. No password, hash, key or token is ever told.

Run it as the companion's own user: what it may read and write depends on who asks.

| exit status | verdict | means |
|---|---|---|
| 0 | fine | nothing is wrong that the doctor knows of |
| 1 | risky | it works, but not as safely or as reliably as it could |
| 2 | broken | something that players or operators need does not work |

What cannot be looked at, because a database is away or a config cannot be read, is named under the summary. AuthMe's
rows are looked at for a second at most.

With `--json` it tells a program: `verdict`; how many findings are `broken` and `risky`; `findings`, each with `id`,
`severity`, `title` (what is so), `why`, `do` and `where`; and `notExamined`, a list of texts. An `id` keeps its
meaning.

```sh
companion doctor --json | python3 -c 'import json, sys; print(*(f["id"] for f in json.load(sys.stdin)["findings"]))'
```

Operators read it without a shell, on the page `/admin`: the companion that runs looks at itself for
`GET /api/admin/doctor`, which tells the same (but for the counts) and `checkedAt`. Of our config it tells as it is in
force, whatever was written to the file since. One look is good for a minute; `?fresh=true` wants a new one, and never
makes two at a time.
"""

_AREAS: Final = {
    "config": "Our config",
    "database": "Our database",
    "table": "AuthMe's table",
    "authme": "AuthMe's config",
    "hash": "Hash algorithms",
    "rules": "Names and passwords",
    "bedrock": "Bedrock players",
    "game": "The game server",
    "server": "Where players reach us",
    "mail": "Mail",
    "secrets": "Secrets",
    "machine": "The machine",
    "sync": "The sync",
    "outbox": "What is sent",
}


def doctor_doc() -> str:
    """The text of docs/doctor.md."""
    areas = groupby(CHECKS, key=lambda check: check.id.partition(".")[0])
    return "\n".join([_HEAD, *(_area(_AREAS[area], checks) for area, checks in areas)])


def main(arguments: list[str] | None = None, file: Path = DOCTOR_FILE) -> int:
    """Write the page; with --check say whether the file is current (exit status 0) or not (1)."""
    return write_or_check(file, doctor_doc(), arguments, __doc__ or "")


def _area(title: str, checks: Iterable[Check]) -> str:
    lines = [("id", "is", "what is so", "what to change", "where"), ("---",) * 5]
    lines += [(f"`{check.id}`", str(check.severity), check.means, check.do, _place(check.place)) for check in checks]
    grid = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    return f"## {title}\n\n{grid}\n"


def _place(place: FixLocation) -> str:
    return f"{place.source}: `{place.key}`" if place.key else str(place.source)


if __name__ == "__main__":
    sys.exit(main())
