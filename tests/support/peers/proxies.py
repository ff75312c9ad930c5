"""nginx and Caddy with the repository's sample configs, on ports and with a certificate of the tests."""

import http.client
import os
import socket
import ssl
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regsvc.cli.install.settings import below_path
from tests.support.certificate import Certificate
from tests.support.daemon import Reply, to_json
from tests.support.ports import free_port
from tests.support.programs import find_program
from tests.support.quick_start import REPOSITORY

SAMPLES = REPOSITORY / "packaging" / "proxy"
HOST = "localhost"
START_TIMEOUT = 15.0  # seconds


def accepts_connections(port: int) -> bool:
    """Return whether a process listens on this port of loopback; wait a moment if none does."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        time.sleep(0.01)
        return False
    return True


class Proxy(ABC):
    """A context manager: a proxy in front of the daemon on `daemon_port`, below a path ("": at the root)."""

    def __init__(self, directory: Path, daemon_port: int, certificate: Certificate, path: str = "") -> None:
        self._directory = directory
        self._certificate = certificate
        self._path = path
        self.certificate_file = certificate.certificate_file
        self.port = free_port()
        self.plain_port = free_port()
        directory.mkdir()
        self._backend = {"127.0.0.1:8080": f"127.0.0.1:{daemon_port}"}

    def __enter__(self) -> "Proxy":
        with (self._directory / "log").open("wb") as log:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
            environment["HOME"] = str(self._directory)  # Caddy keeps its last config there
            command, directory = self._command(), self._directory
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, env=environment)
        deadline = time.monotonic() + START_TIMEOUT
        while not accepts_connections(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError(f"the proxy did not start:\n{(self._directory / 'log').read_text()}")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.terminate()
        self._process.wait(START_TIMEOUT)

    def connect(self, client: str = "127.0.0.1") -> http.client.HTTPSConnection:
        """Return a connection over TLS from a loopback address; it trusts our certificate only."""
        context = ssl.create_default_context(cafile=str(self._certificate.certificate_file))
        return http.client.HTTPSConnection(HOST, self.port, timeout=30, context=context, source_address=(client, 0))

    def request(
        self,
        method: str,
        path: str,
        json: object | None = None,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        client: str = "127.0.0.1",
    ) -> Reply:
        """Send one request on a connection of its own."""
        sent: dict[str, Any] = {"Content-Type": "application/json"} if json is not None else {}
        if token is not None:
            sent["Authorization"] = f"Bearer {token}"
        connection = self.connect(client)
        try:
            connection.request(method, path, None if json is None else to_json(json), {**sent, **(headers or {})})
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            connection.close()

    def _sample(self, name: str, replacements: Mapping[str, str]) -> str:
        """Return a sample config with texts replaced, each of which must be in it."""
        text = (SAMPLES / name).read_text(encoding="utf-8")
        text = below_path(text, self._path) if self._path else text
        for old, new in {**replacements, "play.example.org": HOST}.items():
            assert old in text, f"{name} has no {old!r}"
            text = text.replace(old, new)
        return text

    @abstractmethod
    def _command(self) -> list[str]:
        """Write the config and return the command that serves it in the foreground."""


def nginx_command(directory: Path, *samples: str) -> list[str]:
    """Write a config with the samples in its `http` block; return the command that serves it in the foreground."""
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    lines = [
        "user root;" if os.geteuid() == 0 else "",
        "daemon off; pid nginx.pid; error_log stderr; worker_processes 1; events {}",
        "http { access_log off; server_names_hash_bucket_size 128;",
        *(f"{kind}_temp_path {kind};" for kind in kinds),
        *samples,
        "}",
    ]
    file = directory / "nginx.conf"
    file.write_text("\n".join(lines), encoding="utf-8")
    return [find_program("nginx"), "-p", str(directory), "-c", str(file), "-e", "stderr"]


class Nginx(Proxy):
    """nginx, which reads the samples from its `http` block, as Debian's does from conf.d."""

    def _command(self) -> list[str]:
        files = self._certificate
        plain = self._sample(
            "nginx-http.conf",
            {
                "listen 80;": f"listen {self.plain_port};",
                "listen [::]:80;": f"listen [::]:{self.plain_port};",
                "/var/www/html": str(self._directory),
            },
        )
        sample = self._sample(
            "nginx.conf",
            {
                **self._backend,
                "/etc/letsencrypt/live/play.example.org/fullchain.pem": str(files.certificate_file),
                "/etc/letsencrypt/live/play.example.org/privkey.pem": str(files.key_file),
                "listen 443 ": f"listen {self.port} ",
                "listen [::]:443 ": f"listen [::]:{self.port} ",
            },
        )
        return nginx_command(self._directory, plain, sample)


class Caddy(Proxy):
    """Caddy, with our certificate instead of one that it would request."""

    def _command(self) -> list[str]:
        files = self._certificate
        ours = "#tls /etc/ssl/play.example.org.pem /etc/ssl/play.example.org.key"
        sample = self._sample("Caddyfile", {**self._backend, ours: f"tls {files.certificate_file} {files.key_file}"})
        options = [
            "admin off",
            f"http_port {self.plain_port}",
            f"https_port {self.port}",
            f"storage file_system {self._directory / 'storage'}",
        ]
        file = self._directory / "Caddyfile"
        file.write_text("{\n" + "\n".join(options) + "\n}\n" + sample, encoding="utf-8")
        return [find_program("caddy"), "run", "--adapter", "caddyfile", "--config", str(file)]
