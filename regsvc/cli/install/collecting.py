"""Collect the settings of an installation: from options, the config that is there, questions, and the machine."""

import argparse
import asyncio
import getpass
import pwd
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from email.message import EmailMessage
from email.utils import formatdate, make_msgid
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from regsvc.cli.config_command import find_key
from regsvc.cli.install.changes import InstallRecord
from regsvc.cli.install.settings import (
    BASE_URL,
    GAME_DIRECTORY,
    MAIL_BACKEND,
    MAIL_HOST,
    MAIL_PORT,
    MAIL_PROVIDER,
    MAIL_SECURITY,
    MAIL_SENDER,
    MAIL_USERNAME,
    OPTIONS,
    PORT,
    REGISTRATION_METHODS,
    REGISTRATION_OPEN,
    InstallProblem,
    Settings,
    command_of,
    describe_gate,
    describe_roots_game,
    drop_in_file,
    find_free_port,
    find_game_directory,
    find_mail_account,
    find_other_server,
    find_owner,
    help_of,
    is_free,
    parse_option,
    parse_setting,
    read_values,
)
from regsvc.config.loader import load_config
from regsvc.config.places import SystemPlaces
from regsvc.config.sections import ConfigError
from regsvc.config.value_checks import find_game_server
from regsvc.core.email_address import parse_email, split_sender
from regsvc.core.errors import InvalidEmail
from regsvc.core.safe_paths import open_file
from regsvc.notifications.delivery import PermanentFailure, TemporaryFailure
from regsvc.notifications.mail.backends import make_mail_backend

T = TypeVar("T")
_ROOT: Final = "root"
_TLS_PORT: Final = 465
_FIRST_FREE_PORT: Final = 1024
_IP_ADDRESS: Final = re.compile(r"[0-9.]+|.*:.*")
_WITHOUT_SERVER: Final[Mapping[str, Mapping[str, object]]] = {
    "authme": {},
    "captcha": {REGISTRATION_METHODS: ["captcha"], MAIL_BACKEND: "off"},
    "later": {REGISTRATION_OPEN: False},
}
"""Words in place of a mail server, and the values that they mean."""
_SERVICE: Final = "http"
_LATER: Final = "Once mails can be sent ({program} install --mail-host HOST --mail-sender ADDRESS)"
_PLAYERS: Final = 50
"""Players in an hour whom the default limits of registrations let in, some with a second try."""


def send_test_mail(values: Mapping[str, object], password: str | None, address: str) -> str | None:
    """Send a mail through the mail server or service in `values`, by "section.key"; return why it failed, or None.

    Raises `ConfigError` if the values do not fit together.
    """
    mail = {MAIL_BACKEND: "smtp"} | {key: value for key, value in values.items() if key.startswith("mail.")}
    if password is not None:
        secret = "mail.http_key" if mail[MAIL_BACKEND] == "http" else "mail.password"
        mail.pop(f"{secret}_file", None)
        mail[secret] = password
    config = load_config(None, {}, mail)
    backend = make_mail_backend(config.mail, None)
    try:
        recipient = parse_email(address)
    except InvalidEmail:
        return f"{address} is no e-mail address"
    message = EmailMessage()
    message["Subject"] = "Test mail of the companion"
    message["From"] = split_sender(backend.sender)[1]
    message["To"] = recipient.envelope
    message["Date"] = formatdate()
    message["Message-ID"] = make_msgid(domain="companion.invalid")
    message.set_content("This mail server accepts mails from the companion.\n")
    try:
        asyncio.run(backend.send(message, recipient))
    except (PermanentFailure, TemporaryFailure) as error:
        return str(error)
    return None


class Instead(Exception):
    """The host has typed a word in place of an answer: "back" to begin again, "later" to leave mail for later."""


class Terminal:
    """The host's terminal: questions and answers."""

    def ask(self, question: str, default: object, parse: Callable[[str], T], *, is_optional: bool = False) -> T | None:
        """Ask until `parse` accepts the answer; an empty answer is the default.

        Returns None for an empty answer to an optional question. `parse` raises ValueError with a sentence. Raises
        `Instead`.
        """
        hint = f" [{default}]" if default else ""
        while True:
            answer = input(f"{question}{hint}: ").strip() or str(default or "")
            if answer.lower() in ("back", "later"):
                raise Instead(answer.lower())
            if not answer and is_optional:
                return None
            try:
                return parse(answer)
            except ValueError as error:
                print(f"  {error}")

    def ask_secret(self, question: str) -> str:
        """Ask for a secret, which is not shown."""
        while not (secret := getpass.getpass(f"{question} (not shown): ")):
            print("  this is needed")
        return secret

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
        self._answers: dict[str, object] = {}
        self._password = _read_password(args.mail_password_file)

    def collect(self, record: InstallRecord | None) -> Settings:
        """Return all settings; `record` is that of the installation that is there already.

        Raises `InstallProblem` for what is missing or wrong, and `ConfigError` for a broken config.
        """
        config_file = self._inside(self._places.config_file)
        present = read_values(config_file) if config_file.exists() else {}
        if self._terminal is not None and not present:
            print('Answer "back" to begin again with what you have typed.')
        while True:
            self._values = present | self._given
            try:
                return self._collect(record, is_first=not present)
            except Instead:
                print("From the beginning; what you have typed is in brackets.")

    def _collect(self, record: InstallRecord | None, *, is_first: bool) -> Settings:
        if self._terminal is None:
            self._require_values(GAME_DIRECTORY, BASE_URL)
        self._complete(
            GAME_DIRECTORY, "Folder of the game server", find_game_directory(self._args.instance), self._a_server
        )
        print(describe_gate(Path(str(self._values[GAME_DIRECTORY]))))
        user = self._args.user or (record.user if record is not None else self._find_user())
        _require_user(user)
        if user == _ROOT:
            print("warning: it will run as root: a hole in it opens the whole machine")
        self._complete(
            BASE_URL, "Address at which players reach the companion, such as https://play.example.org", "", _an_address
        )
        if is_first:
            self._choose_port()
        for key in (GAME_DIRECTORY, PORT):
            try:
                self._require_own(key, self._values.get(key))
            except ValueError as error:
                raise InstallProblem(f"{key} = {error}", status=2) from None
        asks = self._terminal if is_first else None
        if asks is not None and self._given.keys().isdisjoint((MAIL_HOST, REGISTRATION_METHODS)):
            self._ask_for_mail(asks)
        elif MAIL_HOST in self._given:
            self._take_given_mail()
        players = self._args.players_first_hour
        if asks is not None and players is None:
            question = "About how many players will register in the first hour?"
            players = asks.ask(question, self._answers.get(question, _PLAYERS), _a_number)
            self._answers[question] = players
        self._allow_players(players or 0)
        return Settings(self._places, user, dict(self._values), self._password, self._choose_backups(record))

    def _choose_port(self) -> None:
        if PORT not in self._values:
            self._values[PORT] = find_free_port(self._inside(Path("/etc")))
            if self._terminal is not None:
                question = "Port to listen on, for your web server in front of it"
                self._ask(PORT, question, self._values[PORT], self._a_port)
        elif self._root == Path("/") and not is_free(int(str(self._values[PORT]))):
            print(f"warning: something listens on port {self._values[PORT]} already")

    def _take_given_mail(self) -> None:
        word = str(self._values[MAIL_HOST]).lower()
        if word in _WITHOUT_SERVER:
            _checked(OPTIONS[MAIL_HOST], word, partial(_a_way, self._find_account()))
            del self._values[MAIL_HOST]
            self._values |= _WITHOUT_SERVER[word]
            if word == "later":
                self._tell_closed(_LATER)
            return
        self._values[MAIL_BACKEND] = "smtp"
        if self._values.get(REGISTRATION_OPEN) is False:
            self._tell_closed("Registration is closed; to open it")
        if self._args.mail_test:
            self._require_mail(self._args.mail_test)

    def _choose_backups(self, record: InstallRecord | None) -> bool | None:
        """Return whether nightly backups are wanted; None where it was installed before, and nothing else is said."""
        if self._args.backup is not None:
            return bool(self._args.backup)
        is_there = self._inside(
            drop_in_file(self._places.unit)
        ).exists()  # a purge takes the units' lines and the timer
        if is_there and record is not None and record.unfinished is None:
            return None
        if record is not None and record.has_backups is not None:
            return record.has_backups
        question = f"Make a backup every night, in {self._places.backups}?"
        return self._terminal is None or self._terminal.confirm(question, default=True)

    def _allow_players(self, players: int) -> None:
        """Raise the limits of registrations and codes in total where these would keep players out."""
        if players > _PLAYERS:
            for key in ("registration.limits_total", "verification.limits_total"):
                self._values[key] = [f"{2 * players} per hour", f"{10 * players} per day"]
            print(f"  {2 * players} registrations and mailed codes an hour: does your mail provider allow as many?")

    def _inside(self, path: Path) -> Path:
        return self._root / path.relative_to("/")

    def _complete(self, key: str, question: str, default: object, check: Callable[[str], str] | None = None) -> None:
        """Ask for a setting that is not known yet."""
        is_real = self._root == Path("/")  # another system's folders may not be there yet
        if key not in self._values:
            self._ask(key, question, default, check if is_real or key == BASE_URL else None)
        elif key == GAME_DIRECTORY and is_real:
            written = str(self._places.config_file.parent / str(self._values[key]))
            if key in self._given:
                self._values[key] = _checked(OPTIONS[key], written, self._a_server)
            else:
                _checked(OPTIONS[key], written, _a_folder)

    def _require_own(self, key: str, value: object) -> None:
        """Raise ValueError if another server of this machine has the same folder or port."""
        own = self._inside(self._places.config_file)
        other = find_other_server(self._inside(Path("/etc")), own, key, value)
        if other is not None:
            raise ValueError(f"{value} is that of another server: {other}")

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

        self._values[key] = self._answers[key] = self._terminal.ask(question, self._answers.get(key, default), parse)

    def _a_server(self, written: str) -> str:
        """Return the folder of the game server that a folder is, or is in; any other one if the host means it."""
        folder = _a_folder(written)
        found = find_game_server(Path(folder))
        self._require_own(GAME_DIRECTORY, str(found or folder))
        if found is not None:
            if str(found) != folder:
                print(f"  {folder} is in the game server's folder, which is taken: {found}")
            return str(found)
        sentence = f"{folder} is no game server's folder: it has neither server.properties nor plugins/AuthMe"
        if self._terminal is None:
            print(f"warning: {sentence}")
        elif not self._terminal.confirm(f"  {sentence}. Use it anyway?", default=False):
            raise ValueError("name the folder with server.properties")
        return folder

    def _a_port(self, written: str) -> str:
        port = _a_number(written)
        if port < _FIRST_FREE_PORT:
            raise ValueError("a port below 1024 is for root alone: your web server listens there, in front of this one")
        self._require_own(PORT, port)
        question = f"  Something listens on port {port} already. Use it anyway?"
        is_taken = port < 65536 and not is_free(port)
        if is_taken and self._terminal is not None and not self._terminal.confirm(question, default=False):
            raise ValueError("name another port")
        return written

    def _find_user(self) -> str:
        game = self._places.config_file.parent / str(self._values[GAME_DIRECTORY])
        owner = find_owner(game)
        if self._terminal is not None:
            if owner == _ROOT:
                print(f"  {describe_roots_game(game)}")
            question = "User who runs it: the owner of AuthMe's folder, as both write one file on SQLite"
            usual = owner if owner != _ROOT else None
            answer = self._terminal.ask(question, self._answers.get(question, usual), self._a_careful_user)
            self._answers[question] = answer
            return answer or ""
        if owner == _ROOT:
            raise InstallProblem(f"--user is missing: {describe_roots_game(game)} (or --user root, all the same)", 2)
        if owner is None:
            raise InstallProblem("--user is missing: AuthMe's folder has no owner that could be used instead", status=2)
        return owner

    def _a_careful_user(self, written: str) -> str:
        assert self._terminal is not None
        user = _a_user(written)
        if user == _ROOT and not self._terminal.confirm("  Run a web service as root all the same?", default=False):
            raise ValueError("name another user")
        return user

    def _ask_for_mail(self, terminal: Terminal) -> None:
        """Ask how mails are sent, and send a test mail, until the host is content."""
        account = self._find_account()
        own = f'"authme" (its account {account}), ' if account else ""
        print(
            'Codes and decisions are mailed. Type the name of a mail server, or "http" (a service: Resend, Mailgun or '
            f'Brevo, where SMTP is blocked), {own}"captcha" (no mail at all: players solve a captcha instead), or here '
            'or below "later" (registration stays closed until then).'
        )
        before = dict(self._values)
        try:
            while True:
                self._ask(MAIL_HOST, "Mail server", "authme" if account else "later", partial(_a_way, account))
                way = self._values.pop(MAIL_HOST)
                self._values, self._password = dict(before), None
                if way in _WITHOUT_SERVER:
                    self._values |= _WITHOUT_SERVER[str(way)]
                    return
                if way == _SERVICE:
                    self._ask_for_service(terminal)
                else:
                    self._ask_for_server(terminal, way)
                if self._is_content(terminal):
                    return
        except Instead as instead:
            if str(instead) == "back":
                raise
            self._values, self._password = before | {**_WITHOUT_SERVER["later"]}, None
            self._tell_closed(_LATER)

    def _find_account(self) -> str | None:
        return find_mail_account(self._places.config_file.parent / str(self._values[GAME_DIRECTORY]))

    def _tell_closed(self, when: str) -> None:
        program = command_of(self._places)
        print(f"  {when.format(program=program)}: {program} config set {REGISTRATION_OPEN} true")

    def _ask_for_server(self, terminal: Terminal, host: object) -> None:
        self._values |= {MAIL_BACKEND: "smtp", MAIL_HOST: host}
        self._ask(MAIL_PORT, "  Port", find_key(MAIL_PORT).default)
        usual = "tls" if self._values[MAIL_PORT] == _TLS_PORT else find_key(MAIL_SECURITY).default
        self._ask(MAIL_SECURITY, "  Encryption: starttls, tls or none", usual)
        account = terminal.ask("  Account (empty: no login)", self._answers.get(MAIL_USERNAME), str, is_optional=True)
        self._values[MAIL_USERNAME] = self._answers[MAIL_USERNAME] = account or ""
        self._password = terminal.ask_secret("  Password") if account else None
        self._ask_sender(account or "")

    def _ask_for_service(self, terminal: Terminal) -> None:
        self._values[MAIL_BACKEND] = "http"
        self._ask(MAIL_PROVIDER, "  Service: resend, mailgun or brevo", "", _a_service)
        self._password = terminal.ask_secret("  Key")
        self._ask_sender("")

    def _ask_sender(self, account: str) -> None:
        host = urlsplit(str(self._values[BASE_URL])).hostname or ""
        usual = (
            account if "@" in account else f"noreply@{host}" if "." in host and not _IP_ADDRESS.fullmatch(host) else ""
        )
        self._ask(MAIL_SENDER, "  Sender of all mails", usual)

    def _is_content(self, terminal: Terminal) -> bool:
        """Offer a test mail; return whether the host goes on with these settings."""
        address = terminal.ask("  Send a test mail to (empty: none)", "", str, is_optional=True)
        if not address:
            return True
        try:
            failure = send_test_mail(self._values, self._password, address)
        except ConfigError as error:
            failure = str(error)
        print(f"  not sent: {failure}" if failure else f"  sent to {address}")
        return failure is None or not terminal.confirm("  Enter the mail server again?", default=True)

    def _require_mail(self, address: str) -> None:
        failure = send_test_mail(self._values, self._password, address)
        if failure is not None:
            raise InstallProblem(f"the test mail was not sent: {failure}")
        print(f"a test mail was sent to {address}")


def _parse_options(args: argparse.Namespace) -> dict[str, object]:
    given = {key: getattr(args, option[2:].replace("-", "_")) for key, option in OPTIONS.items()}
    if given[BASE_URL]:
        given[BASE_URL] = _checked(OPTIONS[BASE_URL], given[BASE_URL], _an_address)
    values = {key: parse_option(key, written) for key, written in given.items() if written is not None}
    if GAME_DIRECTORY in values:
        values[GAME_DIRECTORY] = str(Path(str(values[GAME_DIRECTORY])).absolute())
    mail = [OPTIONS[key] for key in values if key.startswith("mail.") and key != MAIL_HOST]
    if (word := str(values.get(MAIL_HOST, "")).lower()) in (*_WITHOUT_SERVER, _SERVICE, "back"):
        _require_no_server(word, [*mail, *["--mail-password-file"] * bool(args.mail_password_file)])
        return values
    if mail and MAIL_HOST not in values:
        raise InstallProblem(f"{mail[0]} needs {OPTIONS[MAIL_HOST]}", status=2)
    if MAIL_HOST in values and not (MAIL_USERNAME in values or MAIL_SENDER in values):
        raise InstallProblem(f"{OPTIONS[MAIL_HOST]} needs {OPTIONS[MAIL_SENDER]}, the sender of all mails", status=2)
    if values.get(MAIL_PORT) == _TLS_PORT:
        values.setdefault(MAIL_SECURITY, "tls")
    return values


def _require_no_server(word: str, given: Sequence[str]) -> None:
    """Raise `InstallProblem` unless this word for `--mail-host` is enough, without these options."""
    option = f"{OPTIONS[MAIL_HOST]} {word}"
    if word not in _WITHOUT_SERVER:
        raise InstallProblem(
            f"{option}: this word is for questions on a terminal. Name a mail server, or give --mail-host later; the "
            'keys of a service are in docs/install.md, "Where SMTP is blocked"',
            status=2,
        )
    if given:
        raise InstallProblem(f"{option} means no mail server: leave out {', '.join(given)}", status=2)


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


def _checked(option: str, written: str, check: Callable[[str], str]) -> str:
    try:
        return check(written)
    except ValueError as error:
        raise InstallProblem(f"{option} {written}: {error}.", status=2) from None


def _a_folder(written: str) -> str:
    folder = Path(written).absolute()
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    return str(folder)


def _an_address(written: str) -> str:
    """Return a web address with its scheme; that of an IP address and of this machine is rarely https."""
    if "://" in written or not re.fullmatch(r"[\w\[]\S*", written):
        return written
    host = urlsplit(f"//{written}").hostname or ""
    address = f"{'http' if host == 'localhost' or _IP_ADDRESS.fullmatch(host) else 'https'}://{written}"
    print(f"  taken as {address}")
    return address


def _a_way(account: str | None, written: str) -> str:
    """Return a mail server, or a word in its place, in lower case; `account` is AuthMe's own, if it has one."""
    word = written.lower()
    if word == "authme" and not account:
        raise ValueError("AuthMe has no mail account (Email.mailAccount and mailPassword in its config); name a server")
    return word if word in _WITHOUT_SERVER or word == _SERVICE else written


def _a_service(written: str) -> str:
    if written.lower() == "generic":
        raise ValueError('what another service needs is in docs/install.md, "Where SMTP is blocked"')
    return written


def _a_number(written: str) -> int:
    if not re.fullmatch("[0-9]{1,6}", written):
        raise ValueError("this must be a whole number")
    return int(written)


def _a_user(written: str) -> str:
    try:
        return pwd.getpwnam(written).pw_name
    except KeyError:
        raise ValueError(f'there is no user "{written}"; name the owner of AuthMe\'s folder') from None
