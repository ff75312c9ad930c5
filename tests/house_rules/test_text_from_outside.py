"""Every place that makes text of bytes, or a document of text, is known: a new one needs a test with no text."""

import ast
from collections import defaultdict

from tests.house_rules.sources import PRODUCT, ROOT, name_of, nodes_of, text_of

PARSERS = {
    *("json.loads", "json.load", "msgspec.json.decode", "yaml.safe_load", "yaml.load", "parse_json", "parse_yaml"),
    *("decode_text", "decode_json", "one_line", "getpass.getuser", "socket.gethostname", "subprocess.run"),
}
READERS = {"decode", "read_text", "readline"}
OF_OUR_OWN = (
    "b64encode(",
    "b32encode(",
    "msgspec.json.encode(",
    "encode_output(",
    "payload",
    "detail",
    ".answers",
    "stored",
    "row.value",
)
"""Within what is decoded there: what was made or stored by the product itself."""

WALK = "fuzz/test_text_from_outside.py"
WAYS_IN = {
    "plugin_bridge/authme/config.py": WALK,
    "plugin_bridge/server/operators.py": WALK,
    "plugin_bridge/java_formats.py": WALK,
    "plugin_bridge/server/allowlist.py": WALK,
    "plugin_bridge/server/files.py": WALK,
    "plugin_bridge/server/player_uuids.py": WALK,
    "plugin_bridge/server/rcon.py": WALK,
    "plugin_bridge/server/status_ping.py": WALK,
    "plugin_bridge/server/versions.py": WALK,
    "regsvc/accounts/chat/guild_roles.py": WALK,
    "regsvc/accounts/chat/provider.py": WALK,
    "regsvc/allowlist/profiles.py": WALK,
    "regsvc/cli/command_line.py": "cli/test_arguments_of_any_bytes.py",
    "regsvc/cli/given_config.py": "cli/test_arguments_of_any_bytes.py",
    "regsvc/cli/install/collecting.py": "cli/test_arguments_of_any_bytes.py",
    "regsvc/cli/users.py": "cli/test_arguments_of_any_bytes.py",
    "regsvc/cli/transfer/importing.py": "cli/test_arguments_of_any_bytes.py",
    "regsvc/cli/transfer/user_files.py": "cli/transfer/test_importing.py",
    "regsvc/cli/transfer/verifymc.py": WALK,
    "regsvc/config/layers.py": "config/test_wrong_configs.py",
    "regsvc/config/value_checks.py": "config/test_wrong_configs.py",
    "regsvc/core/i18n.py": WALK,
    "regsvc/core/safe_paths.py": "registration/test_questionnaire_file.py",
    "regsvc/core/text.py": WALK,
    "regsvc/database/dates.py": "sync/test_typed_dates.py",
    "regsvc/doctor/checks/game.py": WALK,
    "regsvc/doctor/facts/host.py": "doctor/test_status.py",
    "regsvc/http/call.py": "api/http_layer/test_junk.py",
    "regsvc/http/hops.py": "api/http_layer/test_hops.py",
    "regsvc/http/server.py": "api/http_layer/test_proxy_protocol.py",
    "regsvc/http/messages.py": "api/http_layer/test_json_body.py",
    "regsvc/legacy/event_socket.py": "api/http_layer/test_junk.py",
    "regsvc/notifications/mail/backends.py": "notifications/test_words_of_mail_servers.py",
    "regsvc/notifications/mail/http_backend.py": WALK,
    "regsvc/notifications/mail/renderer.py": "notifications/test_mail.py",
    "regsvc/notifications/rcon.py": WALK,
    "regsvc/registration/questionnaire/scorer.py": WALK,
    "regsvc/runtime/updates.py": WALK,
    "regsvc/team_chat/discord.py": WALK,
    "regsvc/team_chat/onebot.py": WALK,
    "regsvc/team_chat/platform.py": WALK,
    "regsvc/team_chat/telegram.py": WALK,
    "regsvc/users/user_query.py": "api/http_layer/test_junk.py",
    "regsvc/web/base.py": "api/http_layer/test_junk.py",
    "regsvc/web/host_front_end.py": "api/http_layer/test_junk.py",
}
"""By module: the test of it, below `tests`."""
OURS = {
    "plugin_bridge/authme/players.py": "a lock that we wrote",
    "plugin_bridge/hashers/slow_hashes.py": "hashes, which are ASCII",
    "plugin_bridge/text.py": "the function itself",
    "regsvc/auth/derived_secrets.py": "digits of a code",
    "regsvc/auth/keys.py": "a key, where anything else is refused by name",
    "regsvc/auth/sessions.py": "a token, by its library, which raises errors of its own",
    "regsvc/cli/install/changes.py": "our record of an installation, where anything else is refused by name",
    "regsvc/cli/install/installing.py": "the output of our own commands, with replacement",
    "regsvc/cli/shipped_files.py": "our own pages",
    "regsvc/cli/status.py": "the output of our own commands",
    "regsvc/cli/transfer/backup.py": "our own manifest, where anything else is refused by name",
    "regsvc/cli/transfer/tables.py": "our own tables in a backup, with checksums",
    "regsvc/database/durability.py": "the kernel's mounts, with replacement",
    "regsvc/database/failpoints.py": "an order of a test",
    "regsvc/database/lease.py": "a digest's input",
    "regsvc/database/location.py": "our own record of the database, where anything else is refused by name",
    "regsvc/runtime/backups.py": "our own notes, where anything else counts as none",
    "regsvc/runtime/metrics.py": "numbers of the kernel",
    "regsvc/runtime/replaced_state.py": "our own plan of a restore",
    "regsvc/web/assets.py": "our own scripts",
}
"""By module: whose text it is, which nobody else writes."""


def list_entries() -> dict[str, list[str]]:
    """Return the calls that decode or parse something, by module."""
    found = defaultdict(list)
    for file in PRODUCT:
        for node in nodes_of(file):
            if not isinstance(node, ast.Call):
                continue
            written, called = ast.unparse(node), ast.unparse(node.func)
            is_reader = isinstance(node.func, ast.Attribute) and node.func.attr in READERS
            if (called in PARSERS or is_reader) and not any(own in written for own in OF_OUR_OWN):
                found[name_of(file)].append(f"{written[:80]} (line {node.lineno})")
    return found


def test_every_way_in_is_known() -> None:
    entries = list_entries()
    unknown = {module: calls for module, calls in entries.items() if module not in WAYS_IN.keys() | OURS.keys()}
    assert not unknown, "text comes in here: make it text by plugin_bridge/text.py, and test that"
    assert not WAYS_IN.keys() & OURS.keys()


def test_each_has_its_test() -> None:
    missing = [test for test in set(WAYS_IN.values()) if not (ROOT / "tests" / test).is_file()]
    assert not missing


def test_replies_are_parsed_in_one_way() -> None:
    """The parsers themselves raise more than ValueError, and pass on lone surrogates."""
    found = [
        f"{name_of(file)}: {call}"
        for file in PRODUCT
        for call in ("json.loads(response.body", "json.decode(response.body", "response.body.decode(")
        if call in text_of(file)
    ]
    assert not found
