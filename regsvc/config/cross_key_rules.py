"""Rules between several keys of the config, and about the files it names.

A rule takes the whole config and yields what breaks it; `config_loader` adds where the key was given.
"""

import ipaddress
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from regsvc.config.database_url import split_database_url
from regsvc.config.sections import ChatSection, Config
from regsvc.config.value_checks import is_placeholder, why_no_folder, why_not_secret, why_unreadable


class Broken(NamedTuple):
    """One broken rule: the section and key to change, and a sentence that says what to do."""

    section: str
    key: str
    reason: str


def broken_rules(config: Config) -> Iterator[Broken]:
    """Everything that is wrong between keys that are fine one by one."""
    for rule in _RULES:
        yield from rule(config)


def unwise_choices(config: Config) -> Iterator[str]:
    """Sentences about what is allowed but should not stay so."""
    mail = config.mail
    if mail.backend == "log":
        yield (
            'mail.backend is "log": whole mails with their codes are printed to the log; '
            "set up a mail server before players register."
        )
    if mail.backend == "smtp" and mail.security == "none" and mail.username and not _is_loopback(mail.host):
        yield f'mail.security is "none": the mail password crosses the network to {mail.host} in clear.'
    webhook = config.webhook
    if not webhook.allow_private and _is_loopback(urlsplit(webhook.url).hostname or ""):
        yield "webhook.url leads to this machine: nothing is told as long as webhook.allow_private is false."
    elif not webhook.allow_private and not _is_private(webhook.url):
        yield "webhook.url begins with http://: its token, and what it tells, cross the network in clear."


def _tls(config: Config) -> Iterator[Broken]:
    certificate, private_key = config.server.tls_cert_file, config.server.tls_key_file
    if certificate and not private_key:
        yield Broken("server", "tls_cert_file", "a certificate needs its key; set server.tls_key_file too")
    if private_key and not certificate:
        yield Broken("server", "tls_key_file", "a key needs its certificate; set server.tls_cert_file too")
    if certificate and (reason := why_unreadable(certificate)):
        yield Broken("server", "tls_cert_file", reason)
    if private_key and (reason := why_unreadable(private_key) or why_not_secret(private_key)):
        yield Broken("server", "tls_key_file", reason)


def _folders(config: Config) -> Iterator[Broken]:
    named = (
        ("server", "translations", config.server.translations),
        ("http", "web_root", config.http.web_root),
        ("mail", "templates", config.mail.templates),
    )
    for section, key, folder in named:
        if folder is not None and (reason := why_no_folder(folder)):
            yield Broken(section, key, reason)


def _database_url(config: Config) -> Iterator[Broken]:
    if config.database.url == "auto":
        return
    try:
        parts = split_database_url(config.database.url)
    except ValueError as error:
        yield Broken("database", "url", f'write "auto" or a URL; {error}')
        return
    if is_placeholder(parts.password or ""):
        yield Broken("database", "url", "its password is a placeholder that everybody knows; change it")


def _game(config: Config) -> Iterator[Broken]:
    game = config.game
    if game.rcon is True and not game.directory and not game.rcon_password:
        yield Broken("game", "rcon", "it needs game.rcon_password, or game.directory with server.properties")


def _authme(config: Config) -> Iterator[Broken]:
    if config.authme.enabled is True and not config.authme_config_path and not config.authme.backend:
        yield Broken("authme", "enabled", "set game.directory, authme.config, or authme.backend and what follows it")


def _auth(config: Config) -> Iterator[Broken]:
    if config.auth.admin_idle > config.auth.admin_token:
        yield Broken("auth", "admin_idle", "this must not be longer than auth.admin_token; shorten it")


def _registration(config: Config) -> Iterator[Broken]:
    if "email" not in config.registration.methods:
        reason = 'a code by e-mail is what proves who registers; write ["email"] or ["email", "captcha"]'
        yield Broken("registration", "methods", reason)
    both = set(config.registration.email_domains) & set(config.registration.blocked_email_domains)
    if both:
        reason = f"{', '.join(sorted(both))} stands in registration.email_domains too; remove it from one"
        yield Broken("registration", "blocked_email_domains", reason)


def _questionnaire(config: Config) -> Iterator[Broken]:
    if not _is_private(config.questionnaire.scorer_url):
        yield Broken("questionnaire", "scorer_url", "answers and the key must not travel in clear; use https://")


def _chat(config: Config) -> Iterator[Broken]:
    chat = config.chat
    if not chat.platform:
        if chat.required:
            yield Broken("chat", "required", "nobody could register; set chat.platform, or this to false")
        return
    missing = [name for name in _needed_for_chat(chat) if not getattr(chat, name)]
    if missing:
        names = " and ".join(f"chat.{name}" for name in missing)
        yield Broken("chat", "platform", f"it needs {names}; set what your application there was given")
    for name in ("authorize_url", "token_url", "profile_url"):
        if not _is_private(getattr(chat, name)):
            yield Broken("chat", name, "codes and tokens must not travel in clear; use https://")
    if chat.role_ids and not chat.guild_id:
        yield Broken("chat", "role_ids", "roles belong to a guild; set chat.guild_id too")
    if chat.guild_id and chat.platform != "discord":
        yield Broken("chat", "guild_id", 'only Discord has guilds; set chat.platform = "discord", or remove it')


def _mail(config: Config) -> Iterator[Broken]:
    mail = config.mail
    if mail.backend != "smtp":
        return
    if not mail.host:
        yield Broken("mail", "backend", 'it needs a mail server; set mail.host, such as "smtp.example.org"')
    if mail.username and not mail.password:
        yield Broken("mail", "username", "an account needs its password; set mail.password or mail.password_file")


def _downloads(config: Config) -> Iterator[Broken]:
    for name, download in config.downloads.items():
        for key in ("name", "url"):
            if not getattr(download, key):
                yield Broken(f"downloads.{name}", key, "every download has a name and an address; set it")


_RULES: tuple[Callable[[Config], Iterator[Broken]], ...] = (
    *(_tls, _folders, _database_url, _game, _authme, _auth, _registration, _questionnaire, _chat, _mail, _downloads),
)


def _needed_for_chat(chat: ChatSection) -> tuple[str, ...]:
    application = ("client_id", "client_secret")
    return application if chat.platform == "discord" else (*application, "authorize_url", "token_url", "profile_url")


def _is_private(address: str) -> bool:
    """Whether nobody on the way can read what is sent there: encrypted, on this machine, or not set."""
    parts = urlsplit(address)
    return not address or parts.scheme == "https" or _is_loopback(parts.hostname or "")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
