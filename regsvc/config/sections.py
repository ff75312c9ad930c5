"""The whole config. Its sections are declared in two modules by area, and imported from here.

A new key is one line in its section and `make sample` (`regsvc.config.loader` reads the config). The docstring of a
section is its heading in the sample.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from regsvc.config.host_sections import (
    AuthMeSection,
    DatabaseSection,
    GameSection,
    GameServer,
    HttpSection,
    LogSection,
    MailSection,
    MetricsSection,
    OnBan,
    RetentionSection,
    ServerSection,
    SyncSection,
    UpdatesSection,
    WebhookSection,
)
from regsvc.config.player_sections import (
    AuthSection,
    BedrockSection,
    CaptchaSection,
    ChatSection,
    Download,
    QuestionnaireSection,
    RegistrationSection,
    VerificationSection,
)
from regsvc.core.addresses import is_unspecified
from regsvc.core.exceptions import StartupError

__all__ = [
    "AuthMeSection",
    "AuthSection",
    "BedrockSection",
    "CaptchaSection",
    "ChatSection",
    "Config",
    "ConfigError",
    "DatabaseSection",
    "Download",
    "GameSection",
    "GameServer",
    "HttpSection",
    "LogSection",
    "MailSection",
    "MetricsSection",
    "OnBan",
    "QuestionnaireSection",
    "RegistrationSection",
    "RetentionSection",
    "ServerSection",
    "SyncSection",
    "UpdatesSection",
    "VerificationSection",
    "WebhookSection",
]


MISSING_SECRET: Final = "https://secret-that-is-missing.invalid"  # noqa: S105
"""Value of a secret that could not be read: set, as far as rules across keys are concerned, and of use to no service.

It is an address because some secrets are one, and as long as a key has to be.
"""


class ConfigError(StartupError):
    """The config cannot be used; `str()` is one full sentence per problem and line, without any secret."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True)
class Config:
    """The whole config, checked and typed; `Config()` is all defaults. Its repr shows no secret."""

    server: ServerSection = field(default_factory=ServerSection)
    http: HttpSection = field(default_factory=HttpSection)
    database: DatabaseSection = field(default_factory=DatabaseSection)
    game: GameSection = field(default_factory=GameSection)
    servers: tuple[GameServer, ...] = ()
    """The game servers beside that of `game`, from [[game.server]]."""
    authme: AuthMeSection = field(default_factory=AuthMeSection)
    sync: SyncSection = field(default_factory=SyncSection)
    auth: AuthSection = field(default_factory=AuthSection)
    registration: RegistrationSection = field(default_factory=RegistrationSection)
    verification: VerificationSection = field(default_factory=VerificationSection)
    captcha: CaptchaSection = field(default_factory=CaptchaSection)
    questionnaire: QuestionnaireSection = field(default_factory=QuestionnaireSection)
    chat: ChatSection = field(default_factory=ChatSection)
    bedrock: BedrockSection = field(default_factory=BedrockSection)
    mail: MailSection = field(default_factory=MailSection)
    updates: UpdatesSection = field(default_factory=UpdatesSection)
    downloads: Mapping[str, Download] = field(default_factory=lambda: MappingProxyType({}))
    webhook: WebhookSection = field(default_factory=WebhookSection)
    retention: RetentionSection = field(default_factory=RetentionSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    log: LogSection = field(default_factory=LogSection)
    custom_css: str = ""
    """The text of `server.custom_css`."""
    file: Path | None = None
    """The file it was read from, or None."""
    warnings: tuple[str, ...] = ()
    """Sentences about settings that are allowed but risky, for the log and the doctor."""
    exposure_warnings: tuple[str, ...] = ()
    """Those of `warnings` that are about secrets in a file that every user of the machine may read."""
    missing_secrets: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Secrets whose files could not be read, each with a sentence; their values are `MISSING_SECRET`.

    Also the files of the certificate.
    """

    def require_secrets(self, *names: str) -> None:
        """Raise `ConfigError` if a file of one of these secrets ("section.key"; none given: of any) was missing."""
        problems = [reason for name, reason in self.missing_secrets.items() if not names or name in names]
        if problems:
            raise ConfigError(problems)

    def base_url(self, bound_port: int | None = None) -> str:
        """Return the public address without a trailing slash; `bound_port` is the port chosen for port 0."""
        return self.server.base_url or self.address(bound_port)

    def address(self, bound_port: int | None = None) -> str:
        """Return the address at which this process can be reached on this machine."""
        host = "localhost" if is_unspecified(self.server.host) else self.server.host
        scheme = "https" if self.server.tls_cert_file else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{bound_port or self.server.port}"

    @property
    def game_servers(self) -> dict[str, GameServer]:
        """All game servers by name, as outbox messages know them; that of `game`, the main one, is ""."""
        return {"": self.game, **{server.name: server for server in self.servers}}

    @property
    def authme_config_path(self) -> Path | None:
        """AuthMe's config.yml, whether or not it exists; None if its place is not configured."""
        return self.authme.config or self.game.authme_config_path
