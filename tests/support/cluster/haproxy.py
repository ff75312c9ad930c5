"""HAProxy with the repository's sample config, in front of the nodes and the companions of a test."""

import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.certificate import Certificate
from tests.support.cluster.galera import FILES, GaleraNode, environment_with_files
from tests.support.peers.mariadb import HOST
from tests.support.peers.proxies import SAMPLES, START_TIMEOUT, accepts_connections
from tests.support.ports import free_port


class HAProxy:
    """A context manager: the sample, with the addresses of these nodes and companions.

    `database_port` leads to the first node that is ready, `https_port` to a companion that is. `changes` replaces
    further texts of the sample.
    """

    def __init__(
        self,
        directory: Path,
        nodes: Sequence[GaleraNode],
        companion_ports: Sequence[int],
        certificate: Certificate,
        changes: Mapping[str, str] | None = None,
    ) -> None:
        self.database_port, self.https_port = free_port(), free_port()
        self._directory = directory
        directory.mkdir()
        both = directory / "both.pem"
        both.write_bytes(certificate.certificate_file.read_bytes() + certificate.key_file.read_bytes())
        replaced = {
            **{f"192.0.2.2{number}:3306": f"{HOST}:{node.port}" for number, node in enumerate(nodes, 1)},
            **{f"192.0.2.1{number}:8080": f"{HOST}:{port}" for number, port in enumerate(companion_ports, 1)},
            f"{HOST}:3307": f"{HOST}:{self.database_port}",
            "bind :443 ": f"bind {HOST}:{self.https_port} ",
            "bind :80\n": f"bind {HOST}:{free_port()}\n",
            "/etc/haproxy/play.example.org.pem": str(both),
            "log /dev/log local0": "log stderr format raw local0",
            **(changes or {}),
        }
        text = (SAMPLES / "haproxy.cfg").read_text(encoding="utf-8")
        for old, new in replaced.items():
            assert old in text, f"the sample has no {old!r}"
            text = text.replace(old, new)
        self._config_file = directory / "haproxy.cfg"
        self._config_file.write_text(text, encoding="utf-8")

    def __enter__(self) -> "HAProxy":
        environment = environment_with_files()
        program = shutil.which("haproxy", path=environment["PATH"]) or str(FILES / "sbin" / "haproxy")
        with (self._directory / "log").open("wb") as log:
            command = [program, "-db", "-f", str(self._config_file)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + START_TIMEOUT
        while not (accepts_connections(self.database_port) and accepts_connections(self.https_port)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError(f"HAProxy did not start:\n{(self._directory / 'log').read_text()}")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._process.kill()
        self._process.wait()
