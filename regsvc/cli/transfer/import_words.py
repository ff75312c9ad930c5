"""Report of an import from VerifyMC, in words."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from regsvc.cli.transfer.importing import CHAT_LOST, EMAIL_LOST, PASSWORD_LOST, ImportReport, RefusedRecord
from regsvc.cli.transfer.user_files import ImportedUser
from regsvc.cli.transfer.verifymc import VerifyMCData
from regsvc.cli.transfer.verifymc_records import CONVERTED, PLAIN, READY, UNUSABLE
from regsvc.database.models import APPROVED, STATUSES

_REFUSALS: Final = {
    "invalid_username": "the name breaks AuthMe's rules for names, or is a Bedrock name while bedrock.enabled is off",
    "username_taken": "another player in AuthMe's table has the same name to the database",
    "reserved_username": "an operator of the game server has the name, and the record is not approved; create this "
    "user with companion users create",
    "invalid_status": "the status is none of pending, approved, rejected and banned",
    "invalid_registered_at": "regTime is not a time",
    "invalid_email": "the e-mail address is no text",
    "invalid_hash": "the password's hash has characters that no hash has",
    "not_a_record": "the record is not an object",
}


def describe_refusal(row: RefusedRecord) -> str:
    """Return a sentence about a record that was not imported."""
    return f"not imported: {row.name!r} (record {row.line}): {_REFUSALS.get(row.code, row.code)}"


def describe_operators(data: VerifyMCData, is_operator: Callable[[str], bool]) -> list[str]:
    """Return a line about approved records with operators' names: their passwords open /admin."""
    approved = (user.username for user in data.users if isinstance(user, ImportedUser) and user.status == APPROVED)
    operators = [name for name in approved if is_operator(name)]
    if not operators:
        return []
    names = ", ".join(ascii(name) for name in sorted(operators))
    advice = "check that these records are theirs, as their passwords open /admin"
    return [f"operators of the game server: {names}; {advice}"]


def describe_handover(
    data: VerifyMCData,
    report: ImportReport,
    algorithms: Collection[str],
    new_entries: int,
    kept_entries: int,
    *,
    is_dry_run: bool,
) -> list[str]:
    """Return the lines of the report. `algorithms`: AuthMe's; `kept_entries`: audit entries that are not too old."""
    records, entries = _count(len(data.users), "record"), _count(len(data.entries), "audit entry")
    lines = [
        f"VerifyMC: {records} and {entries} in {data.origin}",
        f"{'new users' if not is_dry_run else 'would become users'}: {report.imported}",
        f"{'matched' if not is_dry_run else 'would be matched'} with players in AuthMe's table, whose passwords stay: "
        f"{report.matched}",
        f"users here already, left as they are: {report.skipped}",
        *([f"users who get the address of their record: {report.updated}"] if report.updated else ()),
        f"not imported: {report.refused}",
        *_parts(data, report, algorithms),
        *_entries(data, new_entries, kept_entries),
    ]
    if is_dry_run:
        return [*lines, "nothing was changed: this was a dry run"]
    if report.imported:
        lines.append(
            "the next sync run creates the players of new users who are approved and whose password AuthMe knows"
        )
    return [*lines, "no mail was sent; the same command can be repeated"]


def _parts(data: VerifyMCData, report: ImportReport, algorithms: Collection[str]) -> Iterator[str]:
    parts = report.parts
    if report.imported + report.matched == 0:
        return
    yield "by status: " + ", ".join(f"{parts[f'status {status}']} {status}" for status in STATUSES)
    passwords = {
        READY: "kept as they are",
        CONVERTED: "plain SHA-256, made AuthMe's SHA256",
        PLAIN: "not hashed, hashed now",
        UNUSABLE: "hashes of no known form, left out",
        PASSWORD_LOST: "that cannot be hashed, left out",
        "none": "without one",
    }
    found = [f"{parts[f'password {kind}']} {words}" for kind, words in passwords.items() if parts[f"password {kind}"]]
    if found:
        yield f"passwords of new users: {', '.join(found)}"
    yield from _unknown_algorithms(report, algorithms)
    yield f"e-mail addresses: {parts['email verified']} verified, {parts['email unverified']} unverified"
    if parts["email unverified"] and not data.settings.are_emails_verified:
        yield "  (if the players proved them by codes, import with --verified-emails)"
    if parts[EMAIL_LOST]:
        yield f"e-mail addresses left out, as another user has them or they are none: {parts[EMAIL_LOST]}"
    yield f"chat links: {parts['chat']}" + (f", left out: {parts[CHAT_LOST]}" if parts[CHAT_LOST] else "")
    yield f"questionnaire results: {parts['questionnaire']}"


def _unknown_algorithms(report: ImportReport, algorithms: Collection[str]) -> Iterator[str]:
    prefix = "algorithm "
    counts = {part.removeprefix(prefix): count for part, count in report.parts.items() if part.startswith(prefix)}
    unknown = {name: count for name, count in counts.items() if name not in algorithms}
    if algorithms and unknown:
        yield (
            f"{sum(unknown.values())} of these passwords have an algorithm that AuthMe does not verify "
            f"({', '.join(sorted(unknown))}): they work on the web, and from the first login there in the game, or at "
            "once if you add it to settings.security.legacyHashes in AuthMe's config.yml"
        )


def _entries(data: VerifyMCData, new: int, kept: int) -> Iterator[str]:
    yield f"audit entries: {new} new, {kept - new} here already"
    if len(data.entries) > kept:
        yield f"audit entries older than retention.audit, left out: {len(data.entries) - kept}"
    if data.other_entries:
        kinds = ", ".join(sorted(data.other_entries)[:5])
        yield f"audit entries of kinds that are not kept here, left out: {data.other_entries.total()} ({kinds})"


def _count(number: int, thing: str) -> str:
    plural = f"{thing[:-1]}ies" if thing.endswith("y") else f"{thing}s"
    return f"{number} {thing if number == 1 else plural}"
