"""The database URL of PostgreSQL: one server or several, and every parameter of libpq."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st
from psycopg import pq

from hookfast.errors import Misconfigured
from hookfast.storage.database import postgresql_parameters
from hookfast.storage.database.postgresql_servers import PostgresqlServers
from hookfast.storage.database.postgresql_url import PostgresqlUrl
from tests.support.certificates import client_identity

SERVERS = {
    "postgresql://db/h": "db:5432",
    "postgres://u:p@db:6000/h": "db:6000",
    "postgresql+asyncpg://u:p@10.0.0.1/h": "10.0.0.1:5432",
    "postgresql://u:p@[fd00::1]:6000/h": "[fd00::1]:6000",
    "postgresql://[fe80::1%25eth0]/h": "[fe80::1%eth0]:5432",
    "postgresql://db_1.example.:6000/h": "db_1.example.:6000",
    "postgresql://bücher.example/h": "bücher.example:5432",
    "postgresql://db:/h": "db:5432",
    "postgresql://db": "db:5432",
    "postgresql://u:p@db1,db2/h": "db1:5432, db2:5432",
    "postgresql://u:p@db1:1,db2:2,[::1]:3/h?target_session_attrs=read-write": "db1:1, db2:2, "
    "[::1]:3",
    "postgresql:///h?host=/run/postgresql": "/run/postgresql",
    "postgresql://%2Frun%2Fpostgresql/h": "/run/postgresql",
    "postgresql:///h?host=%2Frun%2Fpostgresql&port=6000": "/run/postgresql",
    "postgresql:///h?host=fd00::1": "[fd00::1]:5432",
    "postgresql:///h?host=db1:1&host=db2:2": "db1:1, db2:2",
    "postgresql:///h?host=db1,db2&port=1,2": "db1:1, db2:2",
    "postgresql:///h?host=db1,db2&port=7": "db1:7, db2:7",
    "postgresql://db1:5/h?host=/run/postgresql": "/run/postgresql",  # as for libpq
    "postgresql:///h": "localhost:5432",
    "postgresql://": "localhost:5432",
    "postgresql:///h?": "localhost:5432",
}


@pytest.fixture(autouse=True)
def _no_other_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variables and files of libpq, unless the test sets them."""
    for option in pq.Conninfo.get_defaults():
        if option.envvar:
            monkeypatch.delenv(option.envvar.decode(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize(("url", "shown"), SERVERS.items())
def test_servers_are_read_from_the_url(url: str, shown: str) -> None:
    assert str(PostgresqlServers(url)) == shown


LOGINS = {
    "postgresql://u%40x:p%2F%3A%40%23%3F%25@db/h%20h": ("u@x", "p/:@#?%", "h h"),
    "postgresql://u:p:q@db/h": ("u", "p:q", "h"),
    "postgresql://u:@db/h": ("u", None, "h"),
    "postgresql://u@db": ("u", None, "u"),  # the database of the same name, as for libpq
    "postgresql://:p@db/h": (getpass.getuser(), "p", "h"),
    "postgresql://db/h": (getpass.getuser(), None, "h"),
    "postgresql://ü:é@db/日本": ("ü", "é", "日本"),
    "postgresql://u:a+b@db/h+i": ("u", "a+b", "h+i"),  # "+" is no blank
    "postgresql://db?user=u&password=a+b%26c&dbname=h": ("u", "a+b&c", "h"),
    "postgresql://x:y@db/z?user=u&password=p&dbname=h": ("u", "p", "h"),
    "postgresql://db/?database=h": (getpass.getuser(), None, "h"),
    "postgresql://u:p@db/a/b": ("u", "p", "a/b"),
}


@pytest.mark.parametrize(("url", "login"), LOGINS.items())
def test_user_password_and_database_are_read_from_the_url(
    url: str, login: tuple[str, str | None, str]
) -> None:
    found = PostgresqlUrl.parse(url)
    assert (found.user, found.password, found.database) == login


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)


@given(texts, texts, texts)
def test_a_quoted_login_comes_back_as_it_was(user: str, password: str, database: str) -> None:
    login = [quote(text, safe="") for text in (user, password, database)]
    found = PostgresqlUrl.parse("postgresql://{}:{}@db/{}".format(*login))
    assert (found.user, found.password, found.database) == (user, password, database)


@given(st.one_of(texts, st.text("abs:/?@#%&=+,[]. \\0\u00e9", min_size=1)))
def test_any_text_is_read_or_refused_in_one_line(text: str) -> None:
    refused = _refusal(f"postgresql://{text}")
    assert refused is None or re.fullmatch("HOOKFAST_DATABASE_URL .*", refused)


@given(st.sampled_from(sorted(postgresql_parameters.USED)), texts)
def test_any_value_of_a_parameter_is_read_or_refused_in_one_line(name: str, value: str) -> None:
    refused = _refusal(f"postgresql://db/h?{name}={quote(value, safe='')}")
    assert refused is None or re.fullmatch("HOOKFAST_DATABASE_URL .*", refused)


def _refusal(url: str) -> str | None:
    """Return why a URL is refused, or None if it is read."""
    try:
        PostgresqlUrl.parse(url)
    except Misconfigured as refused:
        return refused.message
    return None


def test_what_the_url_lacks_is_taken_from_the_variables_of_libpq(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = {"HOST": "db1,db2", "PORT": "7", "USER": "u", "DATABASE": "h", "SSLMODE": "require"}
    for name, value in given.items():
        monkeypatch.setenv(f"PG{name}", value)
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "standby")  # Hookfast writes
    found = PostgresqlUrl.parse("postgresql://")
    assert [str(server) for server in found.servers] == ["db1:7", "db2:7"]
    assert (found.user, found.database, found.session_attribute) == ("u", "h", "read-write")
    assert found.tls.parameters == {"sslmode": "require"}
    assert PostgresqlUrl.parse("postgresql://db/x?sslmode=disable").tls.parameters == {
        "sslmode": "disable"
    }


def test_login_is_not_shown() -> None:
    shown = repr(PostgresqlUrl.parse("postgresql://u:s3cret@db/h?sslpassword=s3cret&a.b=s3cret"))
    assert "s3cret" not in shown


def test_user_without_a_name_is_asked_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", nobody)
    with pytest.raises(Misconfigured, match="has no user; write postgresql://user:password@"):
        PostgresqlUrl.parse("postgresql://db/h")


UNREADABLE = {
    "postgresql://u:sec@ret@db/h": "as %XX",
    "postgresql://u:sec/ret@db/h": "as %XX",
    "postgresql://u:sec?ret@db/h": "as %XX",
    "postgresql://u:1?sec=ret@db/h": "as %XX",
    "postgresql://db/h?user=sec@ret": "as %XX",
    "postgresql://u:sec#ret@db/h": "# as %23",
    "postgresql://u:sec%ret@db/h": "% as %25",
    "postgresql://u:sec%": "% as %25",
    "postgresql://u:sec%FFret@db/h": "not UTF-8",
    "postgresql://u:sec%00ret@db/h": "NUL",
    "postgresql://u:p@db/sec ret": "as %20",
    "postgresql://u:p@db/sec\n": "as %20",
    "postgresql://db/h?password=p&secret": "& as %26",
    "postgresql://u:p@db:0/h": "1 to 65535",
    "postgresql://u:p@db:65536/h": "1 to 65535",
    "postgresql://u:p@db:secret/h": "1 to 65535",
    "postgresql://u:p@db:١/h": "1 to 65535",
    "postgresql://u:p@db1,,db2/h": "empty host",
    "postgresql://u:p@db1,db2:1:2/h": "invalid host or port",
    "postgresql://u:p@[fd00::1/h": "invalid host",
    "postgresql://u:p@[secret]/h": "no IPv6 address",
    "postgresql://u:p@db..secret/h": "invalid host",
    "postgresql://%40secret/h": "invalid host",
    "postgresql://a%20secret/h": "invalid host",
    "postgresql:/secret": "form",
}


@pytest.mark.parametrize(("url", "words"), UNREADABLE.items())
def test_invalid_url_is_rejected_without_quoting_it(url: str, words: str) -> None:
    with pytest.raises(Misconfigured) as raised:
        PostgresqlServers(url)
    assert raised.value.message.startswith("HOOKFAST_DATABASE_URL cannot be read: ")
    assert words in raised.value.message
    assert "sec" not in raised.value.message
    assert "\n" not in raised.value.message


def test_every_parameter_of_libpq_has_an_answer() -> None:
    answered = (
        postgresql_parameters.USED
        | set(postgresql_parameters.NO_EFFECT)
        | set(postgresql_parameters.REFUSED)
    )
    of_libpq = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    assert of_libpq - answered == set()


def test_the_guide_names_every_parameter() -> None:
    guide = Path("docs/production.md").read_text()
    named = set(re.findall(r"`(\w+)`", guide))
    table = postgresql_parameters
    assert {*table.USED, *table.NO_EFFECT, *table.REFUSED} - named == set()


NO_EFFECT = [
    "application_name=x",
    "fallback_application_name=x",
    "channel_binding=disable",
    "channel_binding=prefer",
    "client_encoding=utf8",
    "client_encoding=auto",
    "gssencmode=disable",
    "gssencmode=prefer",
    "keepalives=1",
    "keepalives_idle=30",
    "keepalives_interval=5",
    "keepalives_count=3",
    "tcp_user_timeout=9000",
    "load_balance_hosts=random",
    "sslcompression=0",
    "sslsni=1",
    "uselibpqcompat=true",
    "target_session_attrs=any",
    "connect_timeout=0",
    "sslmode=",  # as if it were not there
]


@pytest.mark.parametrize("parameter", NO_EFFECT)
def test_parameter_that_changes_nothing_is_not_sent_to_the_server(parameter: str) -> None:
    plain = PostgresqlUrl.parse("postgresql://db/h")
    assert PostgresqlUrl.parse(f"postgresql://db/h?{parameter}") == plain


REFUSED = {
    "channel_binding=require": "sslmode=verify-full",
    "gssencmode=require": "sslmode=verify-full",
    "client_encoding=latin1": "remove it",
    "require_auth=scram-sha-256": "sslmode=verify-full",
    "hostaddr=10.0.0.1": "as the host",
    "service=s3cret": "into the URL",
    "scram_client_key=s3cret": "write the password",
    "oauth_client_secret=s3cret": "use a password",
    "sslcertmode=require": "remove sslcertmode",
    "replication=database": "remove it",
    "target_session_attrs=standby": "read-write or primary",
    "target_session_attrs=s3cret": "read-write or primary",
    "connect_timeout=s3cret": "number of seconds",
    "connect_timeout=1.5": "number of seconds",
    "sslmode=no-verify": "disable, allow, prefer, require, verify-ca or verify-full",
    "ssl=1": "`ssl`: write sslmode=require",
    "ssl=false": "sslmode=disable for no TLS",
    "ssl=s3cret": "disable, allow, prefer, require, verify-ca or verify-full",
    "sslnegotiation=direct": "sslmode must be require or stronger",
    "sslrootcert=system&sslmode=require": "sslmode must be verify-full",
    "sslmode=verify-full": "add sslrootcert=FILE",
    "ssl_min_protocol_version=TLSv1": "TLSv1.2 or TLSv1.3",
    "ssl_min_protocol_version=TLSv1.3&ssl_max_protocol_version=TLSv1.2": "above",
    "prepared_statement_cache_size=s3cret": "a number",
    "port=1,2": "one for all hosts",
    # of other drivers
    "pgbouncer=true": "session mode",
    "prepared_statements=false": "session mode",
    "supa=base-pooler.x": "session mode",
    "statement_cache_size=0": "prepared_statement_cache_size",
    "schema=public": "search_path=NAME",
    "currentSchema=s3cret": "search_path=NAME",
    "pool_size=5": "remove it",
    # unknown
    "ssl_mode=verify-full": "or write sslmode",
    "sslmod=verify-full": "or write sslmode",
    "SSLMODE=verify-full": "or write sslmode",
    "conect_timeout=3": "or write connect_timeout",
    "ssl_ca=s3cret": "remove it",
    "useSSL=true": "remove it",
    "tls=true": "remove it",
    "requireSSL=true": "remove it",
    "requireauth=s3cret": "remove it",
    "%20x=s3cret": "no name of a parameter",
    "sslmode=require&sslmode=disable": "twice",
    "ssl=true&sslmode=disable": "another name",
}


@pytest.mark.parametrize(("parameters", "words"), REFUSED.items())
def test_parameter_that_cannot_be_honoured_is_refused_by_name_with_what_to_do(
    parameters: str, words: str
) -> None:
    with pytest.raises(Misconfigured) as refused:
        PostgresqlServers(f"postgresql://db/h?{parameters}")
    said = refused.value.message
    assert said.startswith("HOOKFAST_DATABASE_URL has ")
    assert words in said
    assert "s3cret" not in said
    assert "\n" not in said


def test_settings_of_the_server_are_passed_to_it() -> None:
    query = "search_path=a,b&statement_timeout=5s&TimeZone=UTC&my.own=x&options=-c%20jit%3Doff"
    assert PostgresqlUrl.parse(f"postgresql://db/h?{query}").settings == {
        "search_path": "a,b",
        "statement_timeout": "5s",
        "TimeZone": "UTC",
        "my.own": "x",
        "options": "-c jit=off",
    }


def test_options_of_libpq_and_of_sqlalchemy_are_taken() -> None:
    query = "sslmode=require&connect_timeout=4&prepared_statement_cache_size=0"
    found = PostgresqlUrl.parse(f"postgresql://db/h?{query}")
    assert (found.statement_cache_size, found.connect_seconds) == (0, 4.0)
    assert found.tls.parameters == {"sslmode": "require"}


@pytest.mark.parametrize("given", ["ssl=true", "ssl=require", "sslmode=require"])
def test_ssl_true_means_require_as_for_libpq(given: str) -> None:
    assert PostgresqlUrl.parse(f"postgresql://db/h?{given}").tls.parameters == {
        "sslmode": "require"
    }


@pytest.fixture(scope="module")
def identity() -> dict[str, str]:
    return client_identity(trustme.CA())


@pytest.fixture
def files(tmp_path: Path, identity: dict[str, str]) -> Callable[[str], str]:
    """Return the path of a file for TLS, by its name."""
    contents = identity | {"empty": "", "text": "no certificate", "other_key": ""}
    contents["other_key"] = client_identity(trustme.CA())["private_key"]
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    return lambda name: str(tmp_path / name)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ("sslrootcert=missing", "`sslrootcert`: its file cannot be read (No such file"),
        ("sslrootcert=.", "`sslrootcert`: its file cannot be read (Is a directory)"),
        ("sslrootcert=empty", "`sslrootcert`: its file cannot be loaded"),
        ("sslrootcert=text", "`sslrootcert`: its file cannot be loaded"),
        ("sslcrl=text", "`sslcrl`: its file cannot be loaded"),
        ("sslcert=missing&sslkey=private_key", "`sslcert`: its file cannot be read"),
        ("sslcert=certificate&sslkey=missing", "`sslkey`: its file cannot be read"),
        ("sslcert=certificate&sslkey=other_key", "`sslcert`: its file cannot be loaded (key"),
        ("sslcert=certificate", "`sslcert`: its private key is missing; add sslkey=FILE"),
        ("passfile=missing", "`passfile`: its file cannot be read"),
    ],
)
def test_file_of_tls_that_cannot_be_loaded_is_named_before_a_server_is_asked(
    files: Callable[[str], str], parameters: str, words: str
) -> None:
    query = re.sub(r"=([^&]+)", lambda match: f"={files(match[1])}", parameters)
    with pytest.raises(Misconfigured) as refused:
        PostgresqlUrl.parse(f"postgresql://db/h?{query}")
    assert words in refused.value.message


def test_system_trusts_the_authorities_of_the_system_and_checks_the_name(
    files: Callable[[str], str],
) -> None:
    identity = f"sslcert={files('certificate')}&sslkey={files('private_key')}"
    found = PostgresqlUrl.parse(f"postgresql://db/h?sslrootcert=system&{identity}")
    context: Any = found.tls.context
    assert found.tls.mode == "verify-full"
    assert context.check_hostname
    assert context.verify_mode.name == "CERT_REQUIRED"
    assert PostgresqlUrl.parse(f"postgresql://db/h?{identity}").tls.context is None
