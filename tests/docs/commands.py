"""Commands of the pages, as they are run in a Debian with systemd (`make dist-test`), or why they are not.

`test_commands.py` finds a command that is in neither list.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.docs.pages import Block, list_blocks, split_commands, without_comments

NOT_RUN = {
    "make run": "what follows it is typed by tests/docs/test_readme.py",
    "make test": "`make fresh-test` types it",
    "curl $API": "tests/docs/test_readme.py",
    'curl "$API': "tests/docs/test_readme.py",
    "API=": "tests/docs/test_readme.py",
    "JSON=": "tests/docs/test_readme.py",
    "TOKEN=": "tests/docs/test_readme.py",
    "python3 -c 'import json": "tests/docs/test_readme.py",
    "cp /etc/companion/proxy": "tests/cli/install/test_prepared_root.py loads what is written there",
    "certbot": "it needs a host name that leads to us",
    "nginx -t": "tests/cli/install/test_prepared_root.py",
    "systemctl reload nginx": "no nginx is installed there",
    "podman": "tests/packaging/test_container.py",
    "/opt/companion/.venv/bin/pip install /path": "there is no clone in that Debian; the same is run with the wheel",
    "mysqldump": "AuthMe is on SQLite there",
    "mariadb": "AuthMe is on SQLite there; tests/cli/transfer/test_migrate_to.py",
    "(echo 'SET foreign_key_checks": "AuthMe is on SQLite there",
    "less drop.sql": "AuthMe is on SQLite there",
    "companion migrate --to": "tests/cli/transfer has every direction, with a server",
    "companion import --from verifymc": "tests/cli/transfer has the plugin's files",
    "companion install --game-dir /srv/minecraft": "it logs in to a mail server; tests/cli/install",
    "companion users password Alice\n": "it asks at a terminal; tests/cli",
    "companion users approve Alice --password take": "Alice has not registered anew; tests/cli/test_approve_command.py",
    "companion users reset-totp Olivia": "nobody has a second factor there; tests/cli",
    "systemctl edit": "it opens an editor; the lines to enter are written into that file instead",
    "journalctl -u companion -f": "it does not end",
    "cd /var/lib/companion": "tests/packaging/try_upgrade.py types it, where there is a version before this one",
    "mkdir newer": "tests/packaging/try_upgrade.py types it, where there is a version before this one",
    "mv companion.db": "tests/packaging/try_upgrade.py types it, where there is a version before this one",
    "cp --preserve newer": "tests/packaging/try_upgrade.py types it, where there is a version before this one",
    "companion install\n": "it asks at a terminal; tests/cli/install",
    "companion uninstall": "it asks at a terminal; it is run with --yes",
}
"""The beginning of a command (a line's end is part of it where there is one), and why it is not run there."""

COMPLAINS = re.compile(r"companion( -i \w+)? (doctor|install)\b|upgrade-check\b|systemctl status\b")
"""Commands whose exit status tells what they found."""


@dataclass(frozen=True)
class Step:
    """A block of a page, named by its first words, and the shell lines that bring about what it is for."""

    page: str
    begins: str
    before: str = ""
    after: str = ""


MACHINE_DIED = Step(
    "docs/my-machine-died.md", "apt install", before="cd /dist", after="companion install || [ $? -le 4 ]"
)
"""What a new machine is given; the last command is run where no terminal is."""
AFTER_UPGRADE = Step("docs/upgrade.md", "companion version")
UPGRADE_OF_PACKAGE = Step("docs/upgrade.md", "dpkg-deb --extract", before="cd /dist")
UPGRADE_OF_WHEEL = Step(
    "docs/upgrade.md", "# the new version beside the old one, for the check alone\npython3", before="cd /dist"
)
BACK_OUT = Step("docs/upgrade.md", "cd /var/lib/companion")
WITH_NOTHING = (Step("docs/install.md", "apt install", before="cd /dist"),)
WITH_PACKAGE = (
    Step("docs/team.md", "companion token create"),
    Step(
        "docs/operations.md",
        "companion users password Alice   ",
        before="echo alices-secret | companion users create Alice --password-stdin",
    ),
    Step("docs/operations.md", "install -d -m 700 -o mc"),
    Step("docs/reference.md", "companion export", after="test -s everything.json; test -s FOLDER/audit.csv"),
    Step("docs/reference.md", "companion import users.csv"),
    Step("docs/moving.md", "companion import --from verifymc /srv/minecraft/plugins/VerifyMC\n"),
    Step("docs/operations.md", "systemctl stop companion\ncompanion restore", before="rm -r /var/lib/companion/*"),
    AFTER_UPGRADE,
    UPGRADE_OF_PACKAGE,
    Step("docs/operations.md", "journalctl"),
    Step(
        "docs/hosting.md",
        "companion install --instance survival",
        before="cp -a /srv/minecraft /srv/survival; echo secret > mail-password",
    ),
    Step("docs/hosting.md", "systemctl list-units"),
    Step("docs/hosting.md", "systemctl disable --now companion@survival"),
    Step(
        "docs/hosting.md",
        "tar xzpf survival.tar.gz",
        before="rm -r /etc/companion@survival /var/lib/companion@survival /srv/survival",
        after="companion -i survival users list | grep -q Bob; companion -i survival uninstall --purge --yes",
    ),
    Step(
        MACHINE_DIED.page,
        MACHINE_DIED.begins,
        before="cd /dist; cp -a $(ls -d /var/backups/companion/companion-* | tail -n 1) /root/BACKUP; chmod 700 /root;"
        "systemctl stop companion",
        after="[ -d /var/lib/companion/replaced-* ]; companion users list | grep -q Alice; systemctl start companion;"
        "rm -r /root/BACKUP",
    ),
    Step("docs/reference.md", "systemctl disable --now companion\ncompanion unlock-all"),
    Step("docs/upgrade.md", "systemctl stop companion"),
    Step("docs/upgrade.md", "companion restore", before="rm -r /var/lib/companion/*"),
    Step("docs/upgrade.md", "systemctl start companion"),
)
BY_HAND = (
    Step("docs/install.md", "install -d -m 755 /etc/companion", before="companion uninstall --purge --yes"),
    Step("docs/install.md", "companion doctor"),
)
"""Between the two, the lines for `systemctl edit` are entered (`DROP_IN`), and the keys that the page names are set."""
DROP_IN = Step("docs/install.md", "[Service]\nUser=mc")
WITH_WHEEL = (
    Step("docs/install.md", "python3 -m venv", before="cd /dist"),
    UPGRADE_OF_WHEEL,
)
ALL_STEPS = (*WITH_NOTHING, *WITH_PACKAGE, *BY_HAND, *WITH_WHEEL)


def block_of(step: Step) -> Block:
    (block,) = [each for each in list_blocks() if each.page == step.page and each.text.startswith(step.begins)]
    return block


def is_run(command: str) -> bool:
    return not any(f"{command}\n".startswith(beginning) for beginning in NOT_RUN)


def lines_of(step: Step, replacements: dict[str, str], *, is_everything_run: bool = False) -> str:
    """Return the shell lines of a step, without those in `NOT_RUN` unless told so; one that fails ends them.

    `replacements`: patterns of what differs there, with what stands for it.
    """
    lines = []
    for plain in without_comments(block_of(step).text).splitlines():
        if is_everything_run or all(is_run(command) for command in split_commands(plain)):
            lines.append(f"{plain} || [ $? -le 4 ]" if COMPLAINS.search(plain) else plain)
    return replaced("\n".join(filter(None, (step.before, *lines, step.after))), replacements)


def replaced(script: str, replacements: dict[str, str]) -> str:
    for pattern, value in replacements.items():
        script = re.sub(pattern, value, script)
    return script


def list_commands() -> Iterator[tuple[str, str]]:
    """Yield the place of each command of each block of shell lines, and the command."""
    for block in list_blocks():
        if block.language == "sh":
            yield from ((block.place, command) for command in split_commands(block.text))
