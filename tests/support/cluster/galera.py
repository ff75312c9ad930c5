"""Three MariaDB servers that form a Galera cluster on loopback, and what can happen to one of them."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

import pymysql

from tests.support.peers.mariadb import HOST, START_TIMEOUT, MariaDBServer
from tests.support.ports import free_port

FILES: Final = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "companion-tests" / "cluster" / "usr"
"""What tests/cluster/install.sh unpacked."""
_WITH_GALERA: Final = (
    "--wsrep-on=ON",
    f"--wsrep-provider={FILES / 'lib' / 'libgalera_smm.so'}",
    "--loose-plugin-wsrep-provider=OFF",  # of 11.8: the plugin of this name refuses changes of wsrep_provider_options
)
_JOIN_TIMEOUT: Final = 60.0  # seconds
_RECOVERED: Final = re.compile(r"WSREP: Recovered position: (\S+:-?\d+)")
# A node that is silent is left out after three seconds, not five, so that the stories are shorter.
_PROVIDER: Final = {
    "evs.keepalive_period": "PT0.5S",
    "evs.inactive_check_period": "PT0.25S",
    "evs.suspect_timeout": "PT3S",
    "evs.inactive_timeout": "PT9S",
    "gcache.size": "32M",
    "gcache.page_size": "32M",
}


def environment_with_files() -> dict[str, str]:
    """Return our environment, in which the unpacked programs and their libraries are found."""
    libraries = ":".join(map(str, FILES.glob("lib/*-linux-gnu*")))
    places = [str(FILES / "bin"), str(FILES / "sbin"), os.environ.get("PATH", ""), "/usr/sbin", "/sbin"]
    return {**os.environ, "PATH": ":".join(places), "LD_LIBRARY_PATH": libraries}


class GaleraNode(MariaDBServer):
    """A node of a cluster. `start` and `stop` may alternate; a node that was killed continues where it was."""

    keeps_connections = False

    def __init__(self, directory: Path, name: str, trusts_trigger_creators: bool = True) -> None:
        options = [
            f"--log-bin-trust-function-creators={int(trusts_trigger_creators)}",
            "--binlog-format=ROW",
            "--innodb-file-per-table=1",  # as on a real node
        ]
        super().__init__(directory, options=options, environment=environment_with_files())
        self.name = name
        self.peers: Sequence[GaleraNode] = ()
        self._group_port = free_port()
        self._has_data = False

    @property
    def address(self) -> str:
        """Address at which the other nodes find this one."""
        return f"{HOST}:{self._group_port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def pause(self) -> None:
        """Send SIGSTOP, which to the others looks like a machine that hangs."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def cut_off(self) -> None:
        """Let no message to or from the other nodes pass; clients still reach the node."""
        self.run_as_root("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")

    def reconnect(self) -> None:
        self.run_as_root("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")

    @contextmanager
    def lagging(self) -> Iterator[None]:
        """Let the node apply nothing that others commit, until the block ends; they do not wait for it."""
        with closing(self.connect_as_root()) as connection, connection.cursor() as cursor:
            cursor.execute("FLUSH TABLES WITH READ LOCK")
            yield
            cursor.execute("UNLOCK TABLES")

    def status(self, name: str) -> str:
        """Return a status variable, such as `wsrep_cluster_size`."""
        [[_name, value]] = self.ask_as_root(f"SHOW GLOBAL STATUS LIKE '{name}'")
        return str(value)

    def wait_until_synced(self, size: int) -> None:
        """Wait until the node takes queries in a cluster of `size`. Raises RuntimeError with its log."""
        deadline = time.monotonic() + _JOIN_TIMEOUT
        while not self._is_synced(size):
            has_ended = self._process is None or self._process.poll() is not None
            if has_ended or time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} is no member of the cluster:\n{self._log_tail()}")
            time.sleep(0.05)

    def _is_synced(self, size: int) -> bool:
        with suppress(pymysql.err.Error):
            return self.status("wsrep_ready") == "ON" and self.status("wsrep_cluster_size") == str(size)
        return False

    def _bootstrap(self) -> None:
        """Create the first node's tables; the others get all data from it."""
        if self.peers[0] is self:
            super()._bootstrap()
            return
        for folder in ("data", "tmp"):
            (self._directory / folder).mkdir(parents=True)

    def _list_start_options(self) -> Sequence[str]:
        others = [node for node in self.peers if node is not self]
        is_first = not any(node.is_running for node in others)
        provider = {
            **_PROVIDER,
            "gmcast.listen_addr": f"tcp://{self.address}",
            "ist.recv_addr": f"{HOST}:{free_port()}",
        }
        options = [
            *_WITH_GALERA,
            f"--wsrep-provider-options={';'.join(f'{name}={value}' for name, value in provider.items())}",
            "--wsrep-cluster-name=companion_tests",
            f"--wsrep-cluster-address=gcomm://{'' if is_first else ','.join(node.address for node in others)}",
            f"--wsrep-node-name={self.name}",
            f"--wsrep-node-address={self.address}",
            f"--wsrep-sst-receive-address={HOST}:{free_port()}",
            "--wsrep-sst-method=rsync_for_tests",  # the script from tests/cluster/install.sh
            "--innodb-autoinc-lock-mode=2",
        ]
        if self._has_data:
            options.append(f"--wsrep-start-position={self._recovered_position()}")
        self._has_data = True
        return [*options, *(["--wsrep-new-cluster"] if is_first else [])]

    def begin_again(self) -> None:
        """Start as the first of a cluster whose nodes have all ended, as an administrator has to."""
        state = self._directory / "data" / "grastate.dat"
        state.write_text(state.read_text().replace("safe_to_bootstrap: 0", "safe_to_bootstrap: 1"))
        self.start()

    def last_transaction(self) -> int:
        """Return the number of the last transaction in the data of a node that has ended."""
        return int(self._recovered_position().rpartition(":")[2])

    def _recovered_position(self) -> str:
        """Return where the node stopped, found in its data as `galera_recovery` does."""
        alone = ["--wsrep-recover", "--wsrep-cluster-address=gcomm://", "--disable-log-error", "--skip-networking"]
        command = [*self._options, *_WITH_GALERA, *alone, "--socket=mariadb.sock"]
        done = subprocess.run(command, capture_output=True, env=self._environment, check=False, timeout=START_TIMEOUT)
        found = _RECOVERED.search(done.stderr.decode(errors="replace"))
        assert found is not None, done.stderr.decode(errors="replace")[-2000:]
        return found[1]

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)


def restart_all(nodes: Sequence[GaleraNode]) -> None:
    """Start nodes that have all ended: first the most advanced one, as Galera's manual asks for."""
    first = max(nodes, key=GaleraNode.last_transaction)
    first.begin_again()
    first.wait_until_synced(1)
    for size, node in enumerate((each for each in nodes if each is not first), 2):
        node.start()
        node.wait_until_synced(size)


@contextmanager
def open_cluster(directory: Path) -> Iterator[Sequence[GaleraNode]]:
    """Start three nodes in this folder; they are killed at the end."""
    nodes = [GaleraNode(directory / name, name) for name in ("node1", "node2", "node3")]
    try:
        for size, node in enumerate(nodes, 1):
            node.peers = nodes
            node.start()
            node.wait_until_synced(size)
        yield nodes
    finally:
        for node in nodes:
            node.kill()
