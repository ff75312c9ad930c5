"""The lists that admins see, over a million users and a million audit entries, and whom they keep waiting."""

import http.client
import json
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from tests.bench.figures import Row, seconds
from tests.support.authme.authme_database import DatabaseKind, MariaDBSchema, SqliteFile
from tests.support.daemon import HOST
from tests.support.our_tables import our_database
from tests.support.peers.mariadb import MariaDBServer
from tests.support.stack import Stack

USERS: Final = 1_000_000
ROUNDS: Final = 3
NAMES: Final = {"mariadb": "MariaDB", "sqlite": "SQLite"}
SEARCHES: Final = 8
LOOK_UPS: Final = 200
LOOK_UP_SECONDS: Final = 20.0
COUNT_AGE: Final = 31.0  # seconds for which a count may be kept, and a little more
IDLE_SECONDS: Final = 3.0
MOST_WHEN_IDLE: Final = 0.01  # of a core, the daemon's and the server's
IDLE_WITHIN: Final = 180.0  # seconds
USERS_PATH: Final = "/api/admin/users"
AUDITS_PATH: Final = "/api/admin/audits"
NO_HEADERS: Final[Mapping[str, str]] = {}
SCAN: Final = "SELECT COUNT(*) FROM regsvc_user WHERE INSTR(username_key, 'zzq') > 0 OR INSTR(email_key, 'zzq') > 0"

# the defaults where `Stack` has other values; nothing that was inserted is to be removed or synced meanwhile
CONFIG: Final[dict[str, dict[str, Any]]] = {
    "database": {"threads": 2},
    "log": {"level": "info"},
    "sync": {"every": "1 day"},
    "retention": {"audit": "3000 days", "addresses": "3000 days"},
    "http": {"status_limit": []},
}

SECONDS_APART: Final = 50  # from one user or entry to the next: a million are 579 days
WORDS: Final = "stevealexanightcreepblockminerghastenderstonepiggyvillablaze"
NAME: Final = "SUBSTR('{words}', 1 + n % 12 * 5, 5) || '_' || SUBSTR('0000000' || n, -7)"
STATEMENTS: Final = (
    """
    INSERT INTO regsvc_user (username, username_key, email, email_key, is_email_verified, status, applied_status,
      language, origin, registration_ip, created_at, last_login_at, changed_at)
    WITH {numbers}
    SELECT {name}, {name}, 'player' || n || '@example.org', 'player' || n || '@example.org', 1, {status}, {status},
      'en', CASE WHEN n % 100 < 90 THEN 'adopted' ELSE 'registered' END,
      '10.' || (n % 199) || '.' || (n % 251) || '.' || (n % 241), {at}, {at}, NULL
    FROM numbers
    """,
    """
    INSERT INTO regsvc_sync_record (username_key, user_id, presence, base_email, base_realname, base_regdate,
      plugin_state, plugin_since, changed_at)
    SELECT username_key, id, 'present', email, username, 1500000000000 + id,
      CASE WHEN id % 250000 = 77 THEN 'conflict' WHEN id % 50000 = 78 THEN 'returned'
        WHEN id % 2000 = 999 THEN 'pending'
        WHEN id % 1000 < 940 THEN 'synced' WHEN id % 1000 < 970 THEN 'locked' ELSE 'absent' END,
      created_at, NULL
    FROM regsvc_user WHERE origin <> 'created' AND username_key <> 'olivia' AND id % 2000 <> 1999
    """,
    """
    INSERT INTO regsvc_audit (action, operator, target, detail, ip, tally, created_at)
    WITH {numbers}, entries AS (SELECT n, n * 7919 % 1000 AS kind, n * 31 % {count} + 1 AS target FROM numbers),
    named AS (SELECT n AS entry, kind, target AS n FROM entries)
    SELECT
      CASE WHEN kind < 450 THEN 'user.logged_in' WHEN kind < 600 THEN 'user.registered'
        WHEN kind < 750 THEN 'user.approved' WHEN kind < 850 THEN 'user.login_failed'
        WHEN kind < 900 THEN 'user.logged_out' WHEN kind < 930 THEN 'user.password_changed'
        WHEN kind < 950 THEN 'user.banned' WHEN kind < 960 THEN 'user.rejected' WHEN kind < 990 THEN 'sync.run'
        WHEN kind < 999 THEN 'admin.logged_in' ELSE 'data.exported' END,
      CASE WHEN kind BETWEEN 600 AND 749 OR kind BETWEEN 930 AND 959
          THEN CASE WHEN entry % 3 = 0 THEN 'Oscar' ELSE 'Olivia' END
        WHEN kind BETWEEN 750 AND 849 THEN '' WHEN kind BETWEEN 960 AND 989 THEN 'sync'
        WHEN kind >= 990 THEN 'Olivia' ELSE {name} END,
      CASE WHEN kind >= 960 THEN NULL ELSE {name} END,
      CASE WHEN kind BETWEEN 600 AND 749 THEN '{{"statusBefore":"pending"}}'
        WHEN kind BETWEEN 960 AND 989 THEN '{{"scanned":1000000,"adopted":0,"updated":3,"locked":1,"removed":0}}' END,
      CASE WHEN kind >= 960 THEN NULL ELSE '10.' || (n % 199) || '.' || (n % 251) || '.' || (n % 241) END,
      CASE WHEN kind < 450 OR kind BETWEEN 750 AND 899 THEN SUBSTR('{zeros}' || entry, -64) END,
      {entry_at}
    FROM named
    """,
    "UPDATE regsvc_user SET changed_at = NULL WHERE changed_at IS NOT NULL",  # as after a sync run
)


@dataclass(frozen=True)
class Query:
    """A list, its parameters, and these as people read them; `bar` is the CPU that a page and its count may take."""

    path: str
    parameters: Mapping[str, object]
    shown: str
    bar: str = "<= 100 ms"

    @property
    def group(self) -> tuple[str, str]:
        """What has one row in the table: queries with the same parameters and the same bar."""
        return f"`GET {self.path}` by {', '.join(self.parameters)}" if self.parameters else self.shown, self.bar


@dataclass
class Measured:
    """CPU milliseconds of a query on each kind of database, one of each round, and the number of rows it found."""

    query: Query
    cpu: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    total: int | None = None


def list_user_queries(count: int) -> list[Query]:
    """Return every filter and order of users."""
    queries = list[Query]()

    def users(bar: str = "<= 100 ms", **parameters: object) -> None:
        queries.append(Query(USERS_PATH, parameters, _shown(USERS_PATH, parameters), bar))

    users()
    users(sort="oldest")
    users(sort="name")
    users(page=count // 40)
    users(page=count // 25)
    users(page=count // 25, sort="oldest")
    users(page=count // 40, sort="name")
    for status in ("approved", "pending", "rejected", "banned"):
        for sort in ("newest", "oldest", "name"):
            users(status=status, sort=sort)
    users(status="approved", page=count // 50)
    for sort in ("oldest", "score"):
        users(status="pending", hasSignal="true", sort=sort)
    for state in ("synced", "absent", "locked", "conflict", "returned", "pending", "off"):
        users(plugin=state)
        users(plugin=state, sort="name")
    users(plugin="synced", page=count // 40)
    users(plugin="locked", status="banned")
    users(plugin="synced", status="approved")
    users(plugin="synced", status="banned")
    exact = _name(count // 2 + 4)
    users(search=exact, match="whole", bar="<= 5 ms")
    users(search=f"player{count // 2 + 4}@example.org", match="whole", bar="<= 5 ms")
    for search in ("zzq", "steve", "10.7.7.7", "10.7."):
        users(search=search, bar="one scan")
        users(search=search, sort="name", bar="one scan")
    users(search="zzq", status="approved", bar="one scan")
    users(search="steve", page=count // 500, bar="one scan")
    users(search="steve", status="banned")
    users(search="steve", plugin="locked")
    return queries


def list_audit_queries(start: datetime, count: int) -> list[Query]:
    """Return every filter of audit entries, with several periods."""
    queries = list[Query]()

    def audits(since: float | None = None, until: float | None = None, **parameters: object) -> None:
        shown = dict(parameters)
        for name, share in (("from", since), ("to", until)):
            if share is not None:
                moment = start + timedelta(seconds=SECONDS_APART * count * share)
                parameters[name], shown[name] = int(moment.timestamp() * 1000), f"{share:.1%}"
        queries.append(Query(AUDITS_PATH, parameters, _shown(AUDITS_PATH, shown)))

    day = 86_400 / SECONDS_APART / count
    player = _name(31 * (count // 2) % count + 1)
    operators: list[dict[str, Any]] = [{}, {"operator": "Olivia"}, {"operator": player}]
    actions: list[dict[str, Any]] = [{}, {"action": "user.logged_in"}, {"action": "user.approved"}]
    periods: list[dict[str, Any]] = [
        {},
        {"since": 1 - day},
        {"since": 0.5},
        {"until": 30 * day},
        {"until": 0.5},
        {"since": 0.1, "until": 0.1 + 3 * day},
        {"since": 0.25, "until": 0.75},
    ]
    for period in periods:
        for operator in operators:
            for action in actions:
                audits(**period, **action, **operator)
        audits(**period, action="data.exported")
        audits(**period, target=player)
        audits(**period, target=player, action="user.logged_in")
    audits(page=count // 40)
    audits(page=count // 20 - 100)
    audits(action="user.approved", page=count // 200)
    return queries


def measure_lists(directory: Path, server: MariaDBServer, count: int, runs: int) -> list[Row]:
    """Measure all lists on both databases; figures are also printed as they come."""
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=SECONDS_APART * (count + 100))
    measured: dict[str, Measured] = {}
    latencies = []
    kinds: tuple[DatabaseKind, ...] = ("mariadb", "sqlite")
    for kind in kinds:
        with Stack(kind, directory / kind, server, config=CONFIG, is_quick=False) as stack:
            lists = _Lists(stack, server, measured)
            lists.fill(start, count)
            lists.wait_until_idle()
            lists.measure([*list_user_queries(count), *list_audit_queries(start, count)], min(runs, ROUNDS))
            latencies.append(lists.measure_look_ups(count))
            print(*latencies[-1], sep=" | ", flush=True)
    return [*_rows(measured.values()), *latencies]


def _shown(path: str, parameters: Mapping[str, object]) -> str:
    return f"`GET {path}{'?' if parameters else ''}{'&'.join(f'{name}={value}' for name, value in parameters.items())}`"


def _rows(measured: Iterable[Measured]) -> list[Row]:
    """Return one row for each group of queries, with its worst ones."""
    groups = defaultdict[tuple[str, str], list[Measured]](list)
    for figures in measured:
        groups[figures.query.group].append(figures)
    rows = []
    for (name, bar), found in groups.items():
        parts = []
        for kind, label in NAMES.items():
            worst = max(found, key=lambda figures, kind=kind: statistics.median(figures.cpu[kind]))  # type: ignore[misc]
            which = f" ({worst.query.shown.rpartition('?')[2].rstrip('`')})" if len(found) > 1 else ""
            parts.append(f"{label} {statistics.median(worst.cpu[kind]):,.0f} ms{which}")
        rows.append((f"CPU of {name}", bar, "", ", ".join(parts)))
    return rows


class _Lists:
    """One stack, filled by SQL and asked by HTTP."""

    def __init__(self, stack: Stack, server: MariaDBServer, measured: dict[str, Measured]) -> None:
        self._stack, self._kind, self._measured = stack, stack.kind, measured
        self._place = our_database(stack)
        self._pids = [stack.daemon.pid, *([server.pid] if stack.kind == "mariadb" else [])]
        self._token = stack.olivia()

    def fill(self, start: datetime, count: int) -> None:
        """Insert users, their sync records and audit entries, in realistic shares, the rare ones included."""
        began, first = time.monotonic(), f"{start:%Y-%m-%d %H:%M:%S}"
        numbers = f"RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})"
        moment = "strftime('%Y-%m-%d %H:%M:%f', '{}', '+' || ({} * {}) || ' seconds')"
        before, after = "", ""  # nobody analyzes a SQLite file
        if self._kind == "mariadb":
            numbers = f"numbers AS (SELECT seq AS n FROM seq_1_to_{count})"
            moment = "TIMESTAMPADD(SECOND, {1} * {2}, '{0}')"
            before = "SET sql_mode = 'PIPES_AS_CONCAT'"
            after = "ANALYZE TABLE regsvc_user, regsvc_sync_record, regsvc_audit"
        facts = {
            "numbers": numbers,
            "count": count,
            "name": NAME.format(words=WORDS),
            "status": "CASE WHEN n % 100 < 90 THEN 'approved' WHEN n % 100 < 95 THEN 'banned' "
            "WHEN n % 100 < 99 THEN 'rejected' ELSE 'pending' END",
            "at": moment.format(first, "n", SECONDS_APART),
            "entry_at": moment.format(first, "entry", SECONDS_APART),
            "zeros": "0" * 64,
        }
        place = self._place
        assert isinstance(place, MariaDBSchema | SqliteFile)
        with closing(place.connect() if isinstance(place, SqliteFile) else place.database.connect()) as connection:
            cursor = connection.cursor()
            for statement in filter(None, (before, *STATEMENTS, after)):
                cursor.execute(statement.format(**facts))
                if self._kind == "mariadb":
                    cursor.fetchall()
        print(f"{NAMES[self._kind]}: {count:,} rows of each in {time.monotonic() - began:.0f} s", flush=True)

    def wait_until_idle(self) -> None:
        """Wait until the server has purged and flushed what was inserted, for that is CPU of the same process."""
        began, used = time.monotonic(), 1.0
        while used > MOST_WHEN_IDLE and time.monotonic() < began + IDLE_WITHIN:
            used = self._cpu_of(lambda: time.sleep(IDLE_SECONDS)) / 1000 / IDLE_SECONDS
        print(f"{NAMES[self._kind]}: {used:.1%} of a core {time.monotonic() - began:.0f} s later", flush=True)

    def measure(self, queries: Sequence[Query], rounds: int) -> None:
        """Measure in rounds, since a count may be kept for half a minute; the first round only warms up."""
        for number in range(rounds + 1):
            began = time.monotonic()
            for query in queries:
                self._measure(query, is_kept=number > 0)
            scans = [self._cpu_of_scan() for _run in range(2)]
            time.sleep(max(0.0, began + COUNT_AGE - time.monotonic()))
        self._keep(Query("", {}, "one scan for a substring, by SQL", ""), scans, None)
        parameters: dict[str, object] = {}
        for _page in range(10):
            parameters["after"] = self._ask(USERS_PATH, parameters)["nextCursor"]
        for _round in range(rounds):
            after = Query(USERS_PATH, parameters, f"`GET {USERS_PATH}?after=...`", "<= 1.5 x the first page")
            self._measure(after, is_kept=True)
        for figures in self._measured.values():
            total = "many" if figures.total is None else f"{figures.total:,}"
            cpu = statistics.median(figures.cpu[self._kind])
            print(f"{NAMES[self._kind]:8} {cpu:8.1f} ms {total:>9} rows  {figures.query.shown}", flush=True)

    def measure_look_ups(self, count: int) -> Row:
        """Measure how long look-ups of a status take while others search without end."""
        is_over, answered = threading.Event(), list[int]()

        def search(number: int) -> None:
            while not is_over.is_set():
                self._ask(USERS_PATH, {"search": f"zzq{number}"})
                answered.append(number)

        searchers = [threading.Thread(target=search, args=(number,)) for number in range(SEARCHES)]
        for searcher in searchers:
            searcher.start()
        time.sleep(1.0)
        taken, began = list[float](), time.monotonic()
        while len(taken) < LOOK_UPS and time.monotonic() < began + LOOK_UP_SECONDS:
            name = f"steve_{len(taken) * 12 % count:07}"
            taken.append(seconds(lambda name=name: self._get("/api/user/status", {"username": name})) * 1000)  # type: ignore[misc]
        is_over.set()
        for searcher in searchers:
            searcher.join()
        what = f"{NAMES[self._kind]}: look-up of a status while {SEARCHES} clients search {count:,} users"
        figures = f"median {statistics.median(taken):,.1f} ms, worst {max(taken):,.1f} ms of {len(taken)}"
        return (what, "<= 50 ms", "", f"{figures}; {len(answered)} searches meanwhile")

    def _measure(self, query: Query, *, is_kept: bool) -> None:
        replies = list[Any]()
        taken = self._cpu_of(lambda: replies.append(self._ask(query.path, query.parameters)))
        if is_kept:
            self._keep(query, [taken], replies[0]["pagination"]["totalCount"])

    def _keep(self, query: Query, taken: Sequence[float], total: int | None) -> None:
        figures = self._measured.setdefault(query.shown, Measured(query))
        figures.cpu[self._kind] += taken
        figures.total = total

    def _cpu_of(self, work: Callable[[], object]) -> float:
        """Return the milliseconds of CPU that the daemon and the database's server need for it."""
        before = sum(map(_cpu_seconds, self._pids))
        work()
        return (sum(map(_cpu_seconds, self._pids)) - before) * 1000

    def _cpu_of_scan(self) -> float:
        """Return the milliseconds of CPU of the shortest search: SQLite's runs in this process."""
        began = time.thread_time()
        in_others = self._cpu_of(lambda: self._place.query(SCAN))
        return in_others if self._kind == "mariadb" else (time.thread_time() - began) * 1000

    def _ask(self, path: str, parameters: Mapping[str, object]) -> Any:
        return self._get(path, parameters, {"Authorization": f"Bearer {self._token}"})

    def _get(self, path: str, parameters: Mapping[str, object], headers: Mapping[str, str] = NO_HEADERS) -> Any:
        connection = http.client.HTTPConnection(HOST, self._stack.daemon.port, timeout=120)
        with closing(connection):
            connection.request("GET", f"{path}?{urlencode(parameters)}", headers=dict(headers))
            reply = connection.getresponse()
            body = json.loads(reply.read())
        assert reply.status == 200, body
        return body


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far, in nanosecond steps: /proc has it in hundredths of a second."""
    return time.clock_gettime(~pid << 3 | 2)


def _name(number: int) -> str:
    """Return the name of the user with this number, as SQL composes it."""
    return f"{WORDS[number % 12 * 5 :][:5]}_{number:07}"
