"""AuthMe's config.yml, read as AuthMe reads it."""

from dataclasses import replace
from pathlib import Path

import pytest

from plugin_bridge.authme.config import DEPRECATED_ALGORITHMS as DEPRECATED
from plugin_bridge.authme.config import (
    AuthMeConfig,
    AuthMeConfigError,
    Backend,
    ColumnNames,
    MailAccount,
    read_authme_config,
)
from plugin_bridge.authme.rules import Violation
from plugin_bridge.hashers import HASHERS, make_password_hasher

REAL_LIFE = """
DataSource:
    # What type of database do you want to use?
    backend: mariadb
    caching: false
    mySQLHost: db.example.org
    mySQLPort: '3307'
    mySQLUseSSL: false
    mySQLCheckServerCertificate: false
    mySQLAllowPublicKeyRetrieval: false
    mySQLUsername: game
    mySQLPassword: 's3cret: x'
    mySQLDatabase: s1_authme-db
    mySQLTablename: players
    mySQLColumnId: uid
    mySQLColumnName: name
    mySQLRealName: real_name
    mySQLColumnSalt: salt
    mySQLPlayerUUID: player_uuid
    mySQLColumnPremiumUUID: ''
    mySQLlastlocX: pos_x
ExternalBoardOptions:
    bCryptLog2Round: 10
Email:
    mailSMTP: smtp.example.org
    mailPort: 587
    mailAccount: game@example.org
    mailPassword: mail-s3cret
settings:
    registration:
        enabled: false
    restrictions:
        kickNonRegistered: true
        minNicknameLength: 4
        maxNicknameLength: 20
        allowedNicknameCharacters: '[a-z]*'
        allowedPasswordCharacters: '[a-z ]*'
    security:
        minPasswordLength: 8
        passwordMaxLength: 40
        unsafePasswords: [Letmein99, 12345678]
        passwordHash: bcrypt
        legacyHashes: [SHA256, nonsense, md5, SHA256]
        pbkdf2Rounds: 5000
        doubleMD5SaltLength: 9
"""


def read(folder: Path, text: str) -> AuthMeConfig:
    path = folder / "config.yml"
    path.write_text(text, encoding="utf-8")
    return read_authme_config(path)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(AuthMeConfigError) as refused:
        read(folder, text)
    return str(refused.value)


class TestReading:
    def test_it_reads_every_key(self, tmp_path: Path) -> None:
        config = read(tmp_path, REAL_LIFE)
        assert config.backend is Backend.MARIADB
        assert (config.host, config.port, config.user) == ("db.example.org", 3307, "game")
        assert (config.password, config.database, config.table) == ("s3cret: x", "s1_authme-db", "players")
        tls = (config.use_ssl, config.check_server_certificate, config.allow_public_key_retrieval)
        assert (config.caching, *tls) == (False,) * 4
        assert config.columns == ColumnNames(
            id="uid",
            username="name",
            realname="real_name",
            salt="salt",
            uuid="player_uuid",
            premium_uuid="",
            x="pos_x",
        )
        assert (config.password_hash, config.legacy_hashes) == ("BCRYPT", ("SHA256", "NONSENSE", "MD5"))
        assert (config.pbkdf2_rounds, config.bcrypt_log2_rounds, config.double_md5_salt_length) == (
            5000,
            10,
            9,
        )
        assert (config.registration_enabled, config.kick_non_registered) == (False, True)
        assert config.mail == MailAccount("game@example.org", "mail-s3cret", "smtp.example.org", 587)
        assert config.mail.is_set_up

    def test_it_reads_the_rules(self, tmp_path: Path) -> None:
        config = read(tmp_path, REAL_LIFE)
        assert (config.name_rule.min_length, config.name_rule.max_length) == (4, 20)
        assert config.name_rule.validate("Alice") == "forbidden_characters"
        assert (config.password_rule.min_length, config.password_rule.max_length) == (8, 40)
        rule = read(tmp_path, REAL_LIFE.replace("'[a-z ]*'", "'[a-z0-9 ]*'")).password_rule
        assert rule.validate("LETMEIN99", "alice") == Violation.UNSAFE
        assert rule.validate("12345678", "alice") == Violation.UNSAFE
        assert rule.validate("password", "alice") is None

    @pytest.mark.parametrize(
        "text", ["{}", "DataSource:\nsettings: 5\n", "DataSource: {backend: [MYSQL], mySQLPort: null}"]
    )
    def test_missing_and_unusable_values_are_authmes_defaults(self, text: str, tmp_path: Path) -> None:
        assert read(tmp_path, text) == AuthMeConfig(source=tmp_path / "config.yml")

    @pytest.mark.parametrize(
        ("given", "minutes"),
        [
            ("type: EMAIL, email: {unregisterOnEmailVerificationFailure: true}", 10),
            ("type: email, email: {unregisterOnEmailVerificationFailure: true, unregisterAfterMinutes: 30}", 30),
            ("type: EMAIL, email: {unregisterOnEmailVerificationFailure: true, unregisterAfterMinutes: -1}", 0),
            ("email: {unregisterOnEmailVerificationFailure: true}", 0),
            ("type: EMAIL, enabled: false, email: {unregisterOnEmailVerificationFailure: true}", 0),
            ("type: EMAIL", 0),
        ],
    )
    def test_only_those_who_register_by_email_are_unregistered(self, given: str, minutes: int, tmp_path: Path) -> None:
        assert read(tmp_path, f"settings: {{registration: {{{given}}}}}").unverified_minutes == minutes

    def test_integers_in_quotes_are_ignored(self, tmp_path: Path) -> None:
        text = "settings: {security: {minPasswordLength: '9', passwordMaxLength: 20.9, pbkdf2Rounds: true}}"
        config = read(tmp_path, text)
        assert (config.password_rule.min_length, config.password_rule.max_length) == (5, 20)
        assert config.pbkdf2_rounds == 10_000
        infinite = read(tmp_path, "settings: {security: {pbkdf2Rounds: .inf, minPasswordLength: .nan}}")
        assert (infinite.pbkdf2_rounds, infinite.password_rule.min_length) == (10_000, 5)

    def test_a_flag_in_quotes_is_ignored(self, tmp_path: Path) -> None:
        assert read(tmp_path, "DataSource: {caching: 'false'}").caching

    @pytest.mark.parametrize(
        ("written", "meant"), [("012345", "5349"), ("true", "true"), ("'012345'", "012345"), ("1.5", "1.5")]
    )
    def test_numbers_are_taken_as_text(self, written: str, meant: str, tmp_path: Path) -> None:
        assert read(tmp_path, f"DataSource: {{mySQLPassword: {written}}}").password == meant

    def test_keys_are_case_sensitive(self, tmp_path: Path) -> None:
        assert read(tmp_path, "datasource: {caching: false}").caching

    def test_the_salt_column_is_found_under_its_old_key(self, tmp_path: Path) -> None:
        old = "ExternalBoardOptions: {mySQLColumnSalt: old_salt}\n"
        assert read(tmp_path, old).columns.salt == "old_salt"
        assert read(tmp_path, old + "DataSource: {mySQLColumnSalt: ''}").columns.salt == ""
        assert read(tmp_path, old + "DataSource: {mySQLColumnSalt: new}").hashing.has_salt_column

    def test_the_sqlite_file_is_beside_the_config(self, tmp_path: Path) -> None:
        config = read(tmp_path, "DataSource: {mySQLDatabase: players}")
        assert config.sqlite_file == tmp_path / "players.db"

    def test_a_mail_account_without_password_is_not_set_up(self, tmp_path: Path) -> None:
        assert not read(tmp_path, "Email: {mailAccount: a@example.org}").mail.is_set_up

    @pytest.mark.parametrize(
        ("written", "has_secret"),
        [
            ("Hooks: {bungeecord: true}", None),
            ("Hooks: {proxySharedSecret: }", None),
            ("Hooks: {proxySharedSecret: ''}", False),
            ("Hooks: {proxySharedSecret: ' '}", False),
            ("Hooks: {proxySharedSecret: [s3cret]}", True),
            ("Hooks: {proxySharedSecret: s3cret}", True),
            ("Hooks: {proxySharedSecret: 0}", True),
        ],
    )
    def test_of_the_proxys_secret_it_is_known_whether_there_is_one(
        self, written: str, has_secret: bool | None, tmp_path: Path
    ) -> None:
        config = read(tmp_path, written)
        assert config.has_proxy_secret is has_secret
        assert "s3cret" not in repr(config)

    def test_secrets_do_not_show(self, tmp_path: Path) -> None:
        shown = repr(read(tmp_path, REAL_LIFE))
        assert "s3cret" not in shown
        assert "db.example.org" in shown


class TestAlgorithms:
    @pytest.mark.parametrize(
        ("written", "read_as"), [("''", ""), ("5", "5"), ("bcrpyt", "BCRPYT"), ("[SHA512]", "SHA256")]
    )
    def test_an_unknown_one_is_never_replaced(self, written: str, read_as: str, tmp_path: Path) -> None:
        config = read(tmp_path, f"settings: {{security: {{passwordHash: {written}}}}}")
        assert (config.password_hash, config.legacy_hashes) == (read_as, ())

    @pytest.mark.parametrize(
        ("version", "lacks", "may_lack"),
        [
            ("5.4.0-b1877", {"PBKDF2BASE64", "SALTEDSHA256", "DOUBLE_SHA512"}, set()),
            ("5.6.0-bCUSTOM", {"PBKDF2BASE64", "SALTEDSHA256", "DOUBLE_SHA512"}, set()),
            ("5.7.0-SNAPSHOT-b2650", {"PBKDF2BASE64", "SALTEDSHA256", "DOUBLE_SHA512"}, set()),
            ("5.7.0-FORK-b53", {"PBKDF2BASE64", "SALTEDSHA256", "DOUBLE_SHA512"}, set()),
            ("5.7.0-b12", {"XAUTH", "WHIRLPOOL", "PBKDF2BASE64", "SALTEDSHA256", "DOUBLE_SHA512"}, set()),
            ("6.0.0-SNAPSHOT", {"XAUTH", "WHIRLPOOL"}, set()),
            ("6.0.1-b5", {"XAUTH", "WHIRLPOOL"}, set()),
            ("7", {"XAUTH", "WHIRLPOOL"}, set()),
            ("6.0.0-FORK-b60", set(), {"XAUTH", "WHIRLPOOL"}),
            ("unspecified", set(), {"XAUTH", "WHIRLPOOL"}),
            (None, set(), {"XAUTH", "WHIRLPOOL"}),
        ],
    )
    def test_which_ones_there_are_depends_on_authmes_version(
        self, version: str | None, lacks: set[str], may_lack: set[str]
    ) -> None:
        config = AuthMeConfig(version=version)
        stated = {
            name: config.with_overrides(password_hash=name).hashing.absent for name in HASHERS if name not in DEPRECATED
        } | {name: config.with_overrides(legacy_hashes=[name]).hashing.absent for name in DEPRECATED}
        assert {name for name, absent in stated.items() if absent} == lacks
        read = {name: replace(config, legacy_hashes=(name,)).hashing.absent for name in HASHERS}
        assert {name for name, absent in read.items() if absent} == lacks | may_lack
        for name in may_lack:
            assert "name it in authme.password_hash" in read[name][name]
        assert all(f"AuthMe {version}, which is installed" in read[name][name] for name in lacks)

    @pytest.mark.parametrize("name", ["MD5", "SHA1", "sha512", "DoubleMD5", "Whirlpool"])
    def test_a_deprecated_one_becomes_legacy(self, name: str, tmp_path: Path) -> None:
        text = f"settings: {{security: {{passwordHash: {name}, legacyHashes: [BCRYPT]}}}}"
        config = read(tmp_path, text)
        assert (config.password_hash, config.legacy_hashes) == ("SHA256", ("BCRYPT", name.upper()))

    def test_the_config_makes_a_working_hasher(self, tmp_path: Path) -> None:
        text = "settings: {security: {passwordHash: PBKDF2, legacyHashes: [SHA256], pbkdf2Rounds: 77}}"
        hasher = make_password_hasher(read(tmp_path, text).hashing)
        assert "$77$" in hasher.configured.hash("secret1", "alice").hash


class TestBackends:
    @pytest.mark.parametrize("name", ["h2", "POSTGRESQL", "ORACLE", "''"])
    def test_one_that_is_not_supported_is_a_problem_and_not_replaced(self, name: str, tmp_path: Path) -> None:
        config = read(tmp_path, f"DataSource: {{backend: {name}}}")
        assert f"AuthMe's backend is {name.strip(chr(39)).upper()}, which is not supported" in str(
            config.backend_problem
        )
        assert config.ignored == ()
        assert config.with_overrides(backend="MYSQL").backend_problem is None

    @pytest.mark.parametrize(
        ("version", "problem"),
        [
            ("5.4.0-b1877", "AuthMe 5.4.0-b1877 has no backend MARIADB, and uses SQLITE instead: use MYSQL."),
            ("5.6.0-bCUSTOM", None),
            ("5.7.0-FORK-b53", None),
            ("6.0.1", None),
            (None, None),
        ],
    )
    def test_mariadb_came_with_5_6(self, version: str | None, problem: str | None) -> None:
        assert AuthMeConfig(backend="MARIADB", version=version).backend_problem == problem
        assert AuthMeConfig(backend="MYSQL", version=version).backend_problem is None

    @pytest.mark.parametrize(
        ("written", "mode"),
        [
            ("disabled", "disable"),
            ("false", "disable"),
            ("Required", "trust"),
            ("verify_ca", "verify-ca"),
            ("VERIFY_IDENTITY", "verify-full"),
            ("true", "verify-full"),
            ("''", "verify-full"),
        ],
    )
    def test_the_forks_key_for_tls_is_that_of_mariadbs_driver(self, written: str, mode: str, tmp_path: Path) -> None:
        text = f"DataSource: {{backend: MARIADB, mySQLUseSSL: true, MariaDbSslMode: {written}}}"
        config = read(tmp_path, text)
        assert (config.ssl_mode, config.ssl_key) == (mode, "DataSource.MariaDbSslMode")
        mysql = read(tmp_path, text.replace("MARIADB", "MYSQL"))
        assert (mysql.ssl_mode, mysql.ssl_key) == ("verify-ca", "DataSource.mySQLUseSSL")

    @pytest.mark.parametrize(
        ("use", "check", "mode"),
        [("true", "true", "verify-ca"), ("true", "false", "trust"), ("false", "true", "disable")],
    )
    def test_without_it_the_keys_of_mysql_decide(self, use: str, check: str, mode: str, tmp_path: Path) -> None:
        text = f"DataSource: {{backend: MARIADB, mySQLUseSSL: {use}, mySQLCheckServerCertificate: {check}}}"
        assert read(tmp_path, text).ssl_mode == mode

    def test_a_mode_that_the_driver_refuses_is_refused(self, tmp_path: Path) -> None:
        text = "DataSource: {backend: MARIADB, MariaDbSslMode: maybe}"
        assert "config.yml: DataSource.MariaDbSslMode is 'maybe'" in refusal(tmp_path, text)
        assert read(tmp_path, text.replace("MARIADB", "MYSQL")).ssl_mode == "verify-ca"


class TestPlainText:
    @pytest.mark.parametrize(
        ("written", "password"),
        [("[a, b]", "[a, b]"), ("12345678.5", "1.23456785E7"), ("yes", "true"), ("0123", "83"), ("{a}", "{a=null}")],
    )
    def test_a_value_without_quotes_is_text_as_java_writes_it(
        self, written: str, password: str, tmp_path: Path
    ) -> None:
        assert read(tmp_path, f"DataSource: {{mySQLPassword: {written}}}").password == password

    def test_an_address_may_be_in_the_brackets_that_jdbc_wants(self, tmp_path: Path) -> None:
        assert read(tmp_path, "DataSource: {backend: MYSQL, mySQLHost: '[::1]'}").host == "::1"


class TestPatterns:
    def test_an_invalid_one_allows_everything(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        config = read(tmp_path, "settings: {restrictions: {allowedPasswordCharacters: '[a-'}}")
        assert config.password_rule.validate("with space é", "alice") is None
        assert "settings.restrictions.allowedPasswordCharacters" in caplog.text


class TestRefusals:
    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(AuthMeConfigError, match=r"config\.yml cannot be read"):
            read_authme_config(tmp_path / "config.yml")

    @pytest.mark.parametrize("text", ["", "- a\n- b\n", "just text"])
    def test_what_has_no_sections_is_no_config(self, text: str, tmp_path: Path) -> None:
        assert "no sections" in refusal(tmp_path, text)

    @pytest.mark.parametrize(
        "value",
        ["'s3cret", "*s3cret", "!s3cret x", "!!int s3cret", "!!float s3cret", "!!int ''", "@s3cret", "[" * 5000],
    )
    def test_broken_yaml_is_refused_without_quoting_it(self, value: str, tmp_path: Path) -> None:
        message = refusal(tmp_path, f"DataSource:\n  mySQLPassword: {value}\n")
        assert "is not valid YAML" in message
        assert "s3cret" not in message

    @pytest.mark.parametrize("name", ["", "a b", "x;DROP TABLE y", "schema.table", "`x`", "é", "a" * 65, "x\\n"])
    def test_a_table_must_be_a_plain_word(self, name: str, tmp_path: Path) -> None:
        assert "config.yml: DataSource.mySQLTablename" in refusal(tmp_path, f'DataSource: {{mySQLTablename: "{name}"}}')

    def test_a_column_must_be_a_plain_word(self, tmp_path: Path) -> None:
        assert "DataSource.mySQLtotpKey" in refusal(tmp_path, "DataSource: {mySQLtotpKey: 'totp--'}")
        assert "DataSource.mySQLColumnEmail" in refusal(tmp_path, "DataSource: {mySQLColumnEmail: ''}")

    def test_two_columns_cannot_share_a_name(self, tmp_path: Path) -> None:
        message = refusal(tmp_path, "DataSource: {mySQLColumnEmail: USERNAME}")
        assert "mySQLColumnEmail" in message
        assert "mySQLColumnName" in message

    @pytest.mark.parametrize("port", ["0", "65536", "x", "-1", "''"])
    def test_a_port_must_be_one(self, port: str, tmp_path: Path) -> None:
        assert "DataSource.mySQLPort" in refusal(tmp_path, f"DataSource: {{mySQLPort: {port}}}")

    def test_the_database_must_have_a_name(self, tmp_path: Path) -> None:
        assert "DataSource.mySQLDatabase" in refusal(tmp_path, "DataSource: {mySQLDatabase: ' '}")


class TestOverrides:
    def test_everything_can_be_given_by_hand(self) -> None:
        config = AuthMeConfig().with_overrides(
            backend="MySQL",
            host="db",
            port=3307,
            user="game",
            password="s3cret",
            database="games",
            table="players",
            columns={"username": "name", "salt": "salt"},
            password_hash="saltedsha512",
            legacy_hashes=["sha256", "MD5"],
            pbkdf2_rounds=1,
            bcrypt_log2_rounds=5,
            double_md5_salt_length=6,
        )
        assert (config.backend, config.host, config.port, config.user) == ("MYSQL", "db", 3307, "game")
        assert (config.password, config.database, config.table) == ("s3cret", "games", "players")
        assert config.columns == ColumnNames(username="name", salt="salt")
        assert (config.password_hash, config.legacy_hashes) == ("SALTEDSHA512", ("SHA256", "MD5"))
        assert config.hashing.has_salt_column
        assert (config.pbkdf2_rounds, config.bcrypt_log2_rounds, config.double_md5_salt_length) == (1, 5, 6)

    def test_what_is_not_given_stays(self, tmp_path: Path) -> None:
        config = read(tmp_path, REAL_LIFE)
        assert config.with_overrides() == config
        changed = config.with_overrides(host="other", columns={"email": "mail"}, password_hash="SHA256")
        assert (changed.host, changed.port, changed.source) == ("other", 3307, config.source)
        assert (changed.columns.email, changed.columns.username) == ("mail", "name")
        assert changed.legacy_hashes == config.legacy_hashes

    @pytest.mark.parametrize(
        ("overrides", "key"),
        [
            ({"backend": "ORACLE"}, "authme.backend"),
            ({"port": 0}, "authme.port"),
            ({"table": "a-b"}, "authme.table"),
            ({"database": ""}, "authme.database"),
            ({"columns": {"mail": "x"}}, "authme.columns.mail"),
            ({"columns": {"email": "x y"}}, "authme.columns.email"),
            ({"password_hash": "MD6"}, "authme.password_hash"),
            ({"legacy_hashes": ["MD6"]}, "authme.legacy_hashes"),
        ],
    )
    def test_a_mistake_is_told_with_its_key(self, overrides: dict[str, object], key: str) -> None:
        with pytest.raises(AuthMeConfigError, match=key):
            AuthMeConfig().with_overrides(**overrides)
