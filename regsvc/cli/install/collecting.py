"""Collect the settings of an installation: from options, the config that is there, questions, and the machine."""

import argparse
import asyncio
import getpass
import pwd
import sys
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from pathlib import Path
from typing import Final, TypeVar

from regsvc.cli.install.settings import (
    BASE_URL,
    GAME_DIRECTORY,
    MAIL_HOST,
    MAIL_PORT,
    MAIL_SECURITY,
    MAIL_SENDER,
    MAIL_USERNAME,
    OPTIONS,
    PORT,
    InstallProblem,
    Settings,
    declaration_of,
    find_free_port,
    find_game_directory,
    find_other_server,
    find_owner,
    help_of,
    parse_option,
    parse_setting,
    read_values,
)
from regsvc.config.loader import load_config
from regsvc.config.places import SystemPlaces
from regsvc.core.email_address import parse_email
from regsvc.core.errors import InvalidEmail
from regsvc.core.safe_paths import open_file
from regsvc.notifications.delivery import PermanentFailure, TemporaryFailure
from regsvc.notifications.mail.backends import make_mail_backend

T = TypeVar("T")
_TLS_PORT: Final = 465


def send_test_mail(values: Mapping[str, object], password: str | None, address: str) -> str | None:
    """Send a mail through the mail server in `values`, by "section.key"; return why it failed, or None.

    Raises `ConfigError` if the values do not fit together.
    """
    mail = {key: value for key, value in values.items() if key.startswith("mail.")} | {"mail.backend": "smtp"}
    if password is not None:
        mail.pop("mail.password_file", None)
        mail["mail.password"] = password
    config = load_config(None, {}, mail)
    backend = make_mail_backend(config.mail, None)
    try:
        recipient = parse_email(address)
    except InvalidEmail:
        return f"{address} is no e-mail address"
    message = EmailMessage()
    message["Subject"] = "Test mail of the companion"
    message["From"] = backend.sender
    message["To"] = recipient.envelope
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain="companion.invalid")
    message.set_content("This mail server accepts mails from the companion.\n")
    try:
        asyncio.run(backend.send(message, recipient))
    except (PermanentFailure, TemporaryFailure) as error:
        return str(error)
    return None


class Terminal:
    """The host's terminal: questions and answers."""

    def ask(self, question: str, default: object, parse: Callable[[str], T], *, is_optional: bool = False) -> T | None:
        """Ask until `parse` accepts the answer; an empty answer is the default.

        Returns None for an empty answer to an optional question. `parse` raises ValueError with a sentence.
        """
        hint = f" [{default}]" if default else ""
        while True:
            answer = input(f"{question}{hint}: ").strip()
            if not answer and is_optional and not default:
                return None
            try:
                return parse(answer or str(default or ""))
            except ValueError as error:
                print(f"  {error}")

    def ask_secret(self, question: str) -> str:
        """Ask for a secret, which is not shown."""
        return getpass.getpass(f"{question} (not shown): ")

    def confirm(self, question: str, *, default: bool) -> bool:
        """Ask a question that is answered with yes or no."""
        answer = input(f"{question} [{'Y/n' if default else 'y/N'}]: ").strip().lower()
        return answer.startswith("y") if answer else default


class Collector:
    """Collects the settings; asks questions if there is a `terminal`."""

    def __init__(self, args: argparse.Namespace, root: Path, terminal: Terminal | None) -> None:
        """`root` is / or the folder that stands for it, where another system is prepared."""
        self._args = args
        self._root = root
        self._terminal = terminal
        self._places = SystemPlaces.of_instance(args.instance)
        self._given = _parse_options(args)
        self._values: dict[str, object] = {}
        self._password = _read_password(args.mail_password_file)

    def collect(self, known_user: str | None) -> Settings:
        """Return all settings; `known_user` is the user of the installation that is there already.

        Raises `InstallProblem` for what is missing or wrong, and `ConfigError` for a broken config.
        """
        config_file = self._inside(self._places.config_file)
        present = read_values(config_file) if config_file.exists() else {}
        is_first = not present
        self._values = present | self._given
        if self._terminal is None:
            self._require_values(GAME_DIRECTORY, BASE_URL)
        self._complete(GAME_DIRECTORY, "Folder of the game server", find_game_directory(self._args.instance), _a_folder)
        user = self._args.user or known_user or self._find_user()
        _require_user(user)
        self._complete(BASE_URL, "Address at which players reach the companion, such as https://play.example.org", "")
        if PORT not in self._values and is_first:
            self._values[PORT] = find_free_port(self._inside(Path("/etc")))
            if self._terminal is not None:
                self._ask(PORT, "Port to listen on, for your web server in front of it", self._values[PORT])
        for key in (GAME_DIRECTORY, PORT):
            self._require_own(config_file, key)
        if self._terminal is not None and is_first and MAIL_HOST not in self._given:
            self._ask_for_mail()
        elif MAIL_HOST in self._given and self._args.mail_test:
            self._require_mail(self._args.mail_test)
        return Settings(self._places, user, dict(self._values), self._password)

    def _inside(self, path: Path) -> Path:
        return self._root / path.relative_to("/")

    def _complete(self, key: str, question: str, default: object, check: Callable[[str], str] | None = None) -> None:
        """Ask for a setting that is not known yet."""
        is_real = self._root == Path("/")  # another system's folders may not be there yet
        if key in self._values:
            if check is not None and is_real:
                _checked(OPTIONS[key], str(self._places.config_file.parent / str(self._values[key])), check)
        else:
            self._ask(key, question, default, check if is_real else None)

    def _require_own(self, config_file: Path, key: str) -> None:
        """Raise `InstallProblem` if another server of this machine has the same folder or port."""
        other = find_other_server(self._inside(Path("/etc")), config_file, key, self._values.get(key))
        if other is not None:
            raise InstallProblem(f"{key} = {self._values[key]} is that of another server: {other}", status=2)

    def _require_values(self, *keys: str) -> None:
        """Raise `InstallProblem` with all options that are missing."""
        missing = [f"{OPTIONS[key]} ({help_of(key)})" for key in keys if key not in self._values]
        if missing:
            found = find_game_directory(self._args.instance)
            hint = f"; a game server with AuthMe is in {found}" if found and GAME_DIRECTORY not in self._values else ""
            raise InstallProblem(f"missing: {', '.join(missing)}{hint}", status=2)

    def _ask(self, key: str, question: str, default: object, check: Callable[[str], str] | None = None) -> None:
        assert self._terminal is not None

        def parse(written: str) -> object:
            if not written:
                raise ValueError("this is needed")
            return parse_setting(key, check(written) if check is not None else written)

        self._values[key] = self._terminal.ask(question, default, parse)

    def _find_user(self) -> str:
        owner = find_owner(self._places.config_file.parent / str(self._values[GAME_DIRECTORY]))
        if self._terminal is not None:
            question = "User who runs it: the owner of AuthMe's folder, as both write one file on SQLite"
            return self._terminal.ask(question, owner, _a_user) or ""
        if owner is None:
            raise InstallProblem("--user is missing: AuthMe's folder has no owner that could be used instead", status=2)
        return owner

    def _ask_for_mail(self) -> None:
        """Ask for the mail server, and send a test mail, until the host is content."""
        terminal = self._terminal
        assert terminal is not None
        while True:
            question = "Mail server (empty: AuthMe's mail account if it has one, otherwise none for now)"
            host = terminal.ask(question, self._values.get(MAIL_HOST), str, is_optional=True)
            if not host:
                return
            self._values[MAIL_HOST] = host
            self._ask(MAIL_PORT, "  Port", self._values.get(MAIL_PORT, declaration_of(MAIL_PORT).default))
            usual = "tls" if self._values[MAIL_PORT] == _TLS_PORT else declaration_of(MAIL_SECURITY).default
            self._ask(MAIL_SECURITY, "  Encryption: starttls, tls or none", self._values.get(MAIL_SECURITY, usual))
            account = terminal.ask(
                "  Account (empty: no login)", self._values.get(MAIL_USERNAME), str, is_optional=True
            )
            self._values[MAIL_USERNAME] = account or ""
            self._password = terminal.ask_secret("  Password") if account else None
            self._ask(MAIL_SENDER, "  Sender of all mails", self._values.get(MAIL_SENDER) or account)
            address = terminal.ask("  Send a test mail to (empty: none)", "", str, is_optional=True)
            if not address:
                return
            failure = send_test_mail(self._values, self._password, address)
            print(f"  not sent: {failure}" if failure else f"  sent to {address}")
            if failure is None or not terminal.confirm("  Enter the mail server again?", default=True):
                return

    def _require_mail(self, address: str) -> None:
        failure = send_test_mail(self._values, self._password, address)
        if failure is not None:
            raise InstallProblem(f"the test mail was not sent: {failure}")
        print(f"a test mail was sent to {address}")


def _parse_options(args: argparse.Namespace) -> dict[str, object]:
    given = {key: getattr(args, option[2:].replace("-", "_")) for key, option in OPTIONS.items()}
    values = {key: parse_option(key, written) for key, written in given.items() if written is not None}
    if GAME_DIRECTORY in values:
        values[GAME_DIRECTORY] = str(Path(str(values[GAME_DIRECTORY])).absolute())
    mail = [OPTIONS[key] for key in values if key.startswith("mail.") and key != MAIL_HOST]
    if mail and MAIL_HOST not in values:
        raise InstallProblem(f"{mail[0]} needs {OPTIONS[MAIL_HOST]}", status=2)
    if MAIL_HOST in values and not (MAIL_USERNAME in values or MAIL_SENDER in values):
        raise InstallProblem(f"{OPTIONS[MAIL_HOST]} needs {OPTIONS[MAIL_SENDER]}, the sender of all mails", status=2)
    if values.get(MAIL_PORT) == _TLS_PORT:
        values.setdefault(MAIL_SECURITY, "tls")
    return values


def _read_password(file: str | None) -> str | None:
    """Return the first line of the file, or of standard input for "-"."""
    if file is None:
        return None
    try:
        if file == "-":
            text = sys.stdin.readline()
        else:
            with open(open_file(Path(file)), encoding="utf-8") as source:  # noqa: PTH123 - a descriptor, not a path
                text = source.readline()
    except (OSError, UnicodeDecodeError) as error:
        raise InstallProblem(f"--mail-password-file {file} cannot be read: {error}", status=2) from None
    return (text.splitlines() or [""])[0]


def _require_user(user: str) -> None:
    _checked("--user", user, _a_user)


def _checked(option: str, written: str, check: Callable[[str], str]) -> None:
    try:
        check(written)
    except ValueError as error:
        raise InstallProblem(f"{option} {written}: {error}.", status=2) from None


def _a_folder(written: str) -> str:
    folder = Path(written).absolute()
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    return str(folder)


def _a_user(written: str) -> str:
    try:
        return pwd.getpwnam(written).pw_name
    except KeyError:
        raise ValueError(f'there is no user "{written}"; name the owner of AuthMe\'s folder') from None
