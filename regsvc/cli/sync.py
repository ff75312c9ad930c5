"""`companion sync`: one sync run, or a plan of one."""

import argparse
import json
import sys
from typing import Any, Final

from regsvc.app.app import App
from regsvc.sync.reporting.words import describe_plan

NO_AUTHME: Final = "AuthMe was not found (game.directory, authme.config)"
_MAX_NAMES: Final = 50
"""Names printed of each kind of planned change."""


def add_sync_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `sync`."""
    parser.add_argument("--plan", action="store_true", help="only tell what would be done, and to whom")
    parser.add_argument(
        "--json", dest="is_json", action="store_true", help="with --plan: print JSON with all names; a run prints JSON"
    )
    parser.add_argument("--full", action="store_true", help="examine every row, as the daemon does once a day")
    parser.add_argument(
        "--allow-mass-changes",
        action="store_true",
        help="also apply changes held back by the limit (sync.max_changes)",
    )


def run_sync(args: argparse.Namespace, app: App) -> int:
    """Run or plan on an open database; return the exit status."""
    if not app.context.location.players.is_enabled:
        print(f"{NO_AUTHME}: only our own tables are examined", file=sys.stderr)
    options: dict[str, Any] = {
        "allow_mass_changes": args.allow_mass_changes,
        "is_full": args.full,
        "terminal": sys.stderr if sys.stderr.isatty() else None,
    }
    if not args.plan:
        report = app.sync.run_alone(**options)
        print(json.dumps(report.as_json(), indent=2))
    elif args.is_json:
        report = app.sync.plan_alone(max_names=sys.maxsize, **options)
        names = {kind: planned.names for kind, planned in report.planned.items()}
        print(json.dumps(report.as_json() | {"names": names}, indent=2))
    else:
        report = app.sync.plan_alone(max_names=_MAX_NAMES, **options)
        print("\n".join(describe_plan(report, _MAX_NAMES)))
    return 1 if report.errors or report.held_back else 0
