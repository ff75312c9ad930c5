"""Rules across several keys of the config, and about the files it names.

A rule takes the whole config and yields its violations; the loader adds where each key was set.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from plugin_bridge.authme.rules import compile_pattern
from regsvc.config.host_sections import MailSection
from regsvc.config.host_style import THEMES, brace_warnings, picture_warnings, style_warnings, unusable_style_reason
from regsvc.config.key_types import to_toml
from regsvc.config.layers import GAME_SERVERS, TEAM_CHATS
from regsvc.config.sections import ChatSection, Config
from regsvc.config.value_checks import (
    exposed_reason,
    find_game_server,
    is_placeholder,
    may_be_player,
    missing_folder_reason,
    no_certificate_reason,
    split_database_url,
    unreadable_reason,
    unusable_certificate_reason,
)
from regsvc.core.addresses import is_loopback, is_private
from regsvc.core.i18n import find_language, list_languages, normalize_tag

_FIRST_FREE_PORT: Final = 1024
_ODD_SECURITY: Final = {(465, "starttls"): "tls", (587, "tls"): "starttls", (25, "tls"): "starttls"}
_SHORTEST_ACCESS_TOKEN: Final = 16
_TEAM_CHAT_KEYS: Final = {
    "discord": ("token", "public_key", "channel"),
    "telegram": ("token", "channel"),
    "onebot": ("token", "channel"),
}
_PAGE_NAMES: Final = ("register", "login", "admin", "api")


class BrokenRule(NamedTuple):
    """A violated rule: the section and key to change, and a sentence that says what to do.

    `is_unreadable`: only the file that the key names is missing, or may not be read; not every command needs it.
    """

    section: str
    key: str
    reason: str
    is_unreadable: bool = False


def find_violations(config: Config) -> Iterator[BrokenRule]:
    """Yield every problem between keys that are valid one by one."""
    rules = (
        *(_tls, _folders, _languages, _style, _database_url, _game, _allowlist, _authme, _auth),
        *(_registration, _membership, _captcha, _questionnaire, _chat, _roles, _team_chats, _mail, _downloads),
    )
    for rule in rules:
        yield from rule(config)


def config_warnings(config: Config) -> Iterator[str]:
    """Yield sentences about settings that are allowed but risky."""
    yield from game_folder_warnings(config)
    directory = config.game.directory
    if directory is not None and (found := find_game_server(directory)) not in (None, directory):
        yield f"game.directory is {directory}, which is in the game server's folder: write {found}."
    for server in config.servers:
        if server.directory is not None and (reason := missing_folder_reason(server.directory)):
            yield f"the game server {server.name}: {reason}: its remote console and its AuthMe are unknown."
    yield from _name_warnings(config)
    yield from _language_warnings(config)
    yield from _address_warnings(config)
    yield from brace_warnings(config)
    yield from style_warnings(config)
    yield from picture_warnings(config)
    mail = config.mail
    if mail.backend == "log":
        yield (
            'mail.backend is "log": whole mails with their codes are printed to the log; '
            "set up a mail server before players register."
        )
    if mail.backend == "smtp" and (mail.port, mail.security) in _ODD_SECURITY:
        usual = _ODD_SECURITY[mail.port, mail.security]
        yield (
            f'mail.port is {mail.port} and mail.security "{mail.security}": on that port almost all mail servers want '
            f'"{usual}"; write that, unless yours is different.'
        )
    if mail.backend == "smtp" and mail.security == "none" and mail.username and not is_loopback(mail.host):
        yield f'mail.security is "none": the mail password crosses the network to {mail.host} unencrypted.'
    if (config.http.legacy_status and config.http.web_root) and (shut := {*config.captcha.also_for}):
        yield (
            f"captcha.also_for has {' and '.join(sorted(shut))}: front ends for http.legacy_status send no "
            "captcha there; remove it, unless yours does."
        )
    if config.http.legacy_status and config.registration.password_rule(has_authme=True) == "optional":
        yield (
            'registration.password is "optional": pages for http.legacy_status ask new players for a password, but '
            "other clients may register without one, and cannot log in then; "
            'set it to "required", unless that is meant.'
        )
    if mail.backend == "http" and not mail.http_allow_private and (place := _private_place(mail.http_url)):
        yield f"mail.http_url leads to {place}: no mail is sent while mail.http_allow_private is false."
    for number, webhook in enumerate(config.webhooks, 1):
        name = "webhook" if number == 1 else f"webhook #{number}"
        if not webhook.allow_private and (place := _private_place(webhook.url)):
            yield f"{name}.url leads to {place}: no event is sent while webhook.allow_private is false."
        elif not webhook.allow_private and not _is_confidential(webhook.url):
            yield f"{name}.url begins with http://: its token and the events cross the network unencrypted."


def game_folder_warnings(config: Config) -> Iterator[str]:
    """Yield a sentence if the game server's folder cannot be read, which does not prevent a start."""
    directory = config.game.directory
    if directory is not None and (reason := missing_folder_reason(directory)):
        yield f"game.directory: {reason}: without it there are no operators, no AuthMe and no remote console."


def _name_warnings(config: Config) -> Iterator[str]:
    """Yield a sentence for each name that only a server with rules of its own lets in."""
    usual = re.compile(rf"(?:{re.escape(config.bedrock.prefix)})?[A-Za-z0-9_ ]*|[^\x00-\x7f]+")
    own = compile_pattern(config.registration.username_regex or "")
    for key, names in {
        "game.operators": config.game.operators,
        "registration.reserved_names": config.registration.reserved_names,
    }.items():
        for name in names:
            is_allowed = usual.fullmatch(name) if may_be_player(name, config.bedrock.prefix) else None
            if not (is_allowed or own.matches(name)):
                yield f"{key} has {to_toml(name)}, which hardly is a player's name: correct it, unless it is meant."


def _language_warnings(config: Config) -> Iterator[str]:
    written, known = config.server.language, _known_languages(config)
    if find_language(known, written) is None:
        yield f'server.language is "{written}": there are no texts in it, only in {", ".join(known)}.'


def _address_warnings(config: Config) -> Iterator[str]:
    server = config.server
    if reason := _unfit_for_paths(server.base_url):
        yield f"server.base_url {reason}; links in mails begin with it: end it before that."
    if 0 < server.port < _FIRST_FREE_PORT:
        yield (
            f"server.port is {server.port}: a port below {_FIRST_FREE_PORT} needs root or CAP_NET_BIND_SERVICE; "
            "choose a higher one, and put a web server in front of it."
        )


def _unfit_for_paths(address: str) -> str | None:
    """Return why paths cannot be appended to a web address, as what follows its name; None if they can."""
    if "?" in address or "#" in address:
        return "has a ? or #"
    _empty, *steps = urlsplit(address).path.split("/")
    if not {"", ".", ".."}.isdisjoint(steps):
        return "has an empty step, . or .. between slashes"
    last = steps[-1] if steps else ""
    if last in _PAGE_NAMES or last.endswith((".html", ".htm", ".php")):
        return f"ends in /{last}, which is the name of a page"
    return None


def _tls(config: Config) -> Iterator[BrokenRule]:
    certificate, private_key = config.server.tls_cert_file, config.server.tls_key_file
    if certificate and not private_key:
        yield BrokenRule("server", "tls_cert_file", "a certificate needs its key; set server.tls_key_file too")
    if private_key and not certificate:
        yield BrokenRule("server", "tls_key_file", "a key needs its certificate; set server.tls_cert_file too")
    if certificate and (reason := unreadable_reason(certificate)):
        yield BrokenRule("server", "tls_cert_file", reason, is_unreadable=True)
    if private_key and (reason := unreadable_reason(private_key)):
        yield BrokenRule("server", "tls_key_file", reason, is_unreadable=True)
    elif private_key and (reason := exposed_reason(private_key)):
        yield BrokenRule("server", "tls_key_file", reason)
    if certificate is None or private_key is None or unreadable_reason(certificate) or unreadable_reason(private_key):
        return
    if reason := unusable_certificate_reason(certificate, private_key):
        yield BrokenRule("server", "tls_cert_file", reason)


def _folders(config: Config) -> Iterator[BrokenRule]:
    named = (
        ("server", "translations", config.server.translations),
        ("http", "web_root", config.http.web_root),
        ("mail", "templates", config.mail.templates),
    )
    for section, key, folder in named:
        if folder is not None and (reason := missing_folder_reason(folder)):
            yield BrokenRule(section, key, reason)


def _languages(config: Config) -> Iterator[BrokenRule]:
    offered = {normalize_tag(language): language for language in config.server.languages}
    known = _known_languages(config)
    if unknown := [language for tag, language in offered.items() if tag not in known]:
        reason = f"there are no texts in {', '.join(unknown)}; there are {', '.join(known)}"
        yield BrokenRule("server", "languages", reason)
    elif offered and find_language(offered, config.server.language) is None:
        yield BrokenRule(
            "server", "language", f"server.languages has only {', '.join(offered)}; add it there, or choose one of them"
        )


def _known_languages(config: Config) -> list[str]:
    folder = config.server.translations
    return list_languages(None if folder is None or missing_folder_reason(folder) else folder)


def _style(config: Config) -> Iterator[BrokenRule]:
    is_ours = not config.http.web_root and not config.http.allowed_origins
    if config.server.theme not in THEMES and is_ours:
        yield BrokenRule(
            "server", "theme", f"the built-in pages have the themes {', '.join(THEMES)}; write one of them"
        )
    if config.server.custom_css and (reason := unusable_style_reason(config.server.custom_css)):
        yield BrokenRule("server", "custom_css", reason)


def _database_url(config: Config) -> Iterator[BrokenRule]:
    if config.database.url == "auto":
        return
    try:
        parts = split_database_url(config.database.url)
    except ValueError as error:
        yield BrokenRule("database", "url", f'write "auto" or a URL; {error}')
        return
    if is_placeholder(parts.password or ""):
        yield BrokenRule("database", "url", "its password is a well-known placeholder; change it")


def _game(config: Config) -> Iterator[BrokenRule]:
    game = config.game
    if game.rcon is True and not game.directory and not game.rcon_password:
        yield BrokenRule("game", "rcon", "it needs game.rcon_password, or game.directory with server.properties")
    for name in game.operators:
        if not may_be_player(name, config.bedrock.prefix):
            reason = f"{to_toml(name)} is no name of a player: write each name as the game has it, and all in one list"
            yield BrokenRule("game", "operators", reason)
    names = {(game.name or config.server.name).casefold()}
    for number, server in enumerate(config.servers, 1):
        section = f"{GAME_SERVERS}.{number}"
        if not server.name:
            yield BrokenRule(section, "name", 'every server needs a name; write one, such as "survival"')
        elif server.name.casefold() in names:
            yield BrokenRule(section, "name", "another server has this name, too; choose one of its own")
        names.add(server.name.casefold())
        if not server.directory and not server.rcon_host:
            yield BrokenRule(section, "directory", "set it to the server's folder, or set rcon_host")
        elif not server.directory and not server.rcon_password:
            yield BrokenRule(section, "rcon_host", "it needs rcon_password, or directory with server.properties")


def _allowlist(config: Config) -> Iterator[BrokenRule]:
    game, allowlist = config.game, config.allowlist
    if allowlist.enabled is not True or game.directory is not None:
        return
    if game.rcon is False or not (game.rcon_host and game.rcon_password):
        yield BrokenRule("allowlist", "enabled", "set game.directory, or game.rcon_host and game.rcon_password")
    if allowlist.uuids != "online":
        yield BrokenRule(
            "allowlist",
            "uuids",
            'without game.directory, write "online" if server.properties has online-mode=true; set game.directory '
            "otherwise, since the console lists other UUIDs than an offline server's players have",
        )


def _authme(config: Config) -> Iterator[BrokenRule]:
    if config.authme.enabled is True and not config.authme_config_path and not config.authme.backend:
        yield BrokenRule(
            "authme", "enabled", "set game.directory, authme.config, or authme.backend and the keys below it"
        )


def _auth(config: Config) -> Iterator[BrokenRule]:
    if config.auth.admin_idle > config.auth.admin_token:
        yield BrokenRule("auth", "admin_idle", "this must not be longer than auth.admin_token; shorten it")


def _registration(config: Config) -> Iterator[BrokenRule]:
    if not config.registration.methods:
        reason = 'anyone could register any number of names; write ["email"], ["email", "captcha"] or ["captcha"]'
        yield BrokenRule("registration", "methods", reason)
    elif not config.registration.requires_code and config.registration.password == "off":  # noqa: S105 - a mode
        reason = 'no link to set one can be mailed with registration.methods = ["captcha"]; write "required"'
        yield BrokenRule("registration", "password", reason)
    both = set(config.registration.email_domains) & set(config.registration.blocked_email_domains)
    if both:
        reason = f"{', '.join(sorted(both))} is in registration.email_domains too; remove it from one of them"
        yield BrokenRule("registration", "blocked_email_domains", reason)


def _membership(config: Config) -> Iterator[BrokenRule]:
    has_table = config.authme.enabled is not False and (config.authme_config_path or config.authme.backend)
    if config.membership.idle is not None and not has_table and config.game.directory is None:
        reason = 'nothing tells who plays; set game.directory, or authme.backend and the keys below it, or write ""'
        yield BrokenRule("membership", "idle", reason)


def _captcha(config: Config) -> Iterator[BrokenRule]:
    if config.captcha.type == "work" and not config.captcha.without_picture:
        reason = 'captcha.type = "work" has no picture; write true, or choose another type'
        yield BrokenRule("captcha", "without_picture", reason)


def _questionnaire(config: Config) -> Iterator[BrokenRule]:
    if (file := config.questionnaire.file) and (reason := unreadable_reason(file)):
        yield BrokenRule("questionnaire", "file", reason)
    if not _is_confidential(config.questionnaire.scorer_url):
        yield BrokenRule(
            "questionnaire", "scorer_url", "answers and the key must not be sent unencrypted; use https://"
        )


def _chat(config: Config) -> Iterator[BrokenRule]:
    chat = config.chat
    if not chat.platform:
        if chat.required:
            yield BrokenRule(
                "chat", "required", "registering would be impossible; set chat.platform, or set this to false"
            )
        return
    missing = [name for name in _required_chat_keys(chat) if not getattr(chat, name)]
    if missing:
        names = " and ".join(f"chat.{name}" for name in missing)
        yield BrokenRule("chat", "platform", f"it needs {names}; set the values of your application there")
    for name in ("authorize_url", "token_url", "profile_url"):
        if not _is_confidential(getattr(chat, name)):
            yield BrokenRule("chat", name, "codes and tokens must not be sent unencrypted; use https://")
    if chat.role_ids and not chat.guild_id:
        yield BrokenRule("chat", "role_ids", "a role belongs to a guild; set chat.guild_id too")
    if chat.guild_id and chat.platform != "discord":
        yield BrokenRule("chat", "guild_id", 'only Discord has guilds; set chat.platform = "discord", or remove it')


def _roles(config: Config) -> Iterator[BrokenRule]:
    """Yield what is missing to look at roles on Discord, or to give one."""
    chat, given = config.chat, config.chat.give_role_id
    named = (("membership", "role_ids", config.membership.role_ids), ("chat", "give_role_id", given))
    for section, name, value in named:
        if not value:
            continue
        if chat.platform != "discord":
            yield BrokenRule(section, name, 'accounts on Discord have roles; set chat.platform = "discord"')
        if not chat.guild_id:
            yield BrokenRule(section, name, "a role belongs to a guild; set chat.guild_id too")
        if not config.bot_token:
            yield BrokenRule(section, name, "a bot looks at roles; set chat.bot_token")
    if given in config.membership.role_ids:
        reason = "who loses it would be given it again; take it out of membership.role_ids"
        yield BrokenRule("chat", "give_role_id", reason)


def _team_chats(config: Config) -> Iterator[BrokenRule]:
    names = set[str]()
    for number, chat in enumerate(config.team_chats, 1):
        section = f"{TEAM_CHATS}.{number}"
        if not chat.platform:
            yield BrokenRule(section, "platform", 'write "discord", "telegram" or "onebot"')
            continue
        for name in _TEAM_CHAT_KEYS[chat.platform]:
            if not getattr(chat, name):
                yield BrokenRule(section, name, f'platform = "{chat.platform}" needs it (see docs/team-chat.md)')
        if chat.platform == "discord" and not config.server.base_url.startswith("https://"):
            reason = "Discord sends clicks to a public https:// address; set server.base_url"
            yield BrokenRule(section, "platform", reason)
        if chat.platform == "onebot" and 0 < len(chat.token) < _SHORTEST_ACCESS_TOKEN:
            reason = "a program that guesses it decides for the team: use 16 characters or more (openssl rand -hex 20)"
            yield BrokenRule(section, "token", reason)
        if not _is_confidential(chat.api_url):
            yield BrokenRule(section, "api_url", "the token must not be sent unencrypted; use https://")
        if chat.channel and chat.name in names:
            yield BrokenRule(section, "channel", "another [[team_chat]] has this channel, too; remove one of them")
        names.add(chat.name)


def _mail(config: Config) -> Iterator[BrokenRule]:
    mail = config.mail
    if mail.ca_file and (reason := unreadable_reason(mail.ca_file) or no_certificate_reason(mail.ca_file)):
        yield BrokenRule("mail", "ca_file", reason)
    if mail.backend == "http":
        yield from _mail_by_http(mail)
    if mail.backend != "smtp":
        return
    if not mail.host:
        yield BrokenRule("mail", "backend", 'it needs a mail server; set mail.host, such as "smtp.example.org"')
    if mail.username and not mail.password:
        yield BrokenRule("mail", "username", "an account needs its password; set mail.password or mail.password_file")


def _mail_by_http(mail: MailSection) -> Iterator[BrokenRule]:
    if not mail.http_provider:
        yield BrokenRule("mail", "backend", 'it needs a service; set mail.http_provider, such as "resend"')
        return
    if not mail.sender:
        yield BrokenRule("mail", "backend", "it needs mail.sender, an address that the service sends mails for")
    if not _is_confidential(mail.http_url):
        yield BrokenRule("mail", "http_url", "mails and the key must not be sent unencrypted; use https://")
    if mail.http_provider != "generic":
        if not mail.http_key:
            yield BrokenRule("mail", "http_provider", "it needs its key; set mail.http_key or mail.http_key_file")
        return
    if not mail.http_url:
        yield BrokenRule("mail", "http_provider", "it needs the address of the service; set mail.http_url")
    if not mail.http_body:
        yield BrokenRule("mail", "http_provider", "it needs the body of a request; set mail.http_body")


def _downloads(config: Config) -> Iterator[BrokenRule]:
    for name, download in config.downloads.items():
        for key in ("name", "url"):
            if not getattr(download, key):
                yield BrokenRule(f"downloads.{name}", key, "every download needs a name and an address; set it")


def _required_chat_keys(chat: ChatSection) -> tuple[str, ...]:
    application = ("client_id", "client_secret")
    return application if chat.platform == "discord" else (*application, "authorize_url", "token_url", "profile_url")


def _private_place(address: str) -> str | None:
    """Return where an address leads that is not public, or None: names are not looked up."""
    host = urlsplit(address).hostname or ""
    if is_loopback(host):
        return "this machine"
    return "a private network" if is_private(host) else None


def _is_confidential(address: str) -> bool:
    """Whether requests to an address cannot be read on the way: it is https, loopback, or not set."""
    parts = urlsplit(address)
    return not address or parts.scheme == "https" or is_loopback(parts.hostname or "")
