"""The database URL of SQLite: every path comes through it, and what could be read in two ways is
refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfast.errors import Misconfigured
from hookfast.settings.database_url import kind_of, sqlite_file, sqlite_url
from hookfast.settings.settings import Settings

# every name that a file system takes, also one that is not UTF-8
names = (
    st.binary(min_size=1, max_size=60)
    .filter(lambda name: not {0, ord("/")} & {*name} and name not in (b".", b".."))
    .map(os.fsdecode)
)
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: Path("/", *parts))

HOMES = ["q", "q?x", "q?y", "p%41x", "pAx", "p%x", "a#b", "a b", "é ü", "c:d", "@", "a&b=c", "[x]"]
HOMES += [
    "?mode=ro",
    "%3F",
    "%2525",
    ":memory:",
    "日本",
    "a\\b",
    "a'b",
    'a"b',
    "a\nb",
    "+",
    "\udcff",
]


@given(paths)
def test_a_path_comes_back_from_its_url_as_it_was(path: Path) -> None:
    url = sqlite_url(path)
    assert kind_of(url) == "sqlite"
    assert sqlite_file(url) == path


@given(paths, paths)
def test_two_homes_never_share_a_database(one: Path, other: Path) -> None:
    files = {sqlite_file(Settings(home=home).resolved_database_url) for home in (one, other)}
    assert len(files) == len({one, other})


def test_the_database_is_in_the_home_whatever_its_name() -> None:
    for name in HOMES:
        home = Path("/srv", name)
        assert sqlite_file(Settings(home=home).resolved_database_url) == home / "hookfast.db"


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:////srv/hf.db", "/srv/hf.db"),
        ("sqlite+aiosqlite:////srv/hf.db", "/srv/hf.db"),
        ("sqlite:///hf.db", "{folder}/hf.db"),
        ("sqlite:///./data/hf.db", "{folder}/data/hf.db"),
        ("sqlite:////srv/a b/é.db", "/srv/a b/é.db"),
        ("sqlite:////srv/a%20b/%C3%A9.db", "/srv/a b/é.db"),
        ("sqlite:////srv/a%3Fb%23c%25d.db", "/srv/a?b#c%d.db"),
        ("sqlite:////srv/p%41x.db", "/srv/pAx.db"),
        ("sqlite:////srv/%FF.db", "/srv/\udcff.db"),
        ("sqlite:///file:hf.db", "{folder}/file:hf.db"),
    ],
)
def test_a_sqlite_url_names_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert str(sqlite_file(url)) == file.format(folder=tmp_path)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite:///a?b.db", "write ? as %3F"),
        ("sqlite:///hf.db?mode=ro", "no options; remove them"),
        ("sqlite:///hf.db?", "no options"),
        ("sqlite://tmp/x.db", "sqlite:////folder/file for an absolute one"),
        ("sqlite://x.db", "sqlite:///file for a relative path"),
        ("sqlite:///a#b.db", "write # as %23"),
        ("sqlite:///a%b.db", "write % as %25"),
        ("sqlite:///a%4", "write % as %25"),
        ("sqlite:///a%00b", "NUL"),
        ("sqlite:///~/hf.db", "write the whole path"),
        ("sqlite://", "not memory"),
        ("sqlite:///", "not memory"),
        ("sqlite:///:memory:", "not memory"),
    ],
)
def test_a_sqlite_url_that_could_be_read_in_two_ways_is_refused_with_what_to_write(
    url: str, words: str
) -> None:
    with pytest.raises(Misconfigured) as refused:
        sqlite_file(url)
    assert refused.value.message.startswith("HOOKFAST_DATABASE_URL ")
    assert words in refused.value.message


OTHERS = [
    "mysql://u:s3cret@db/h",
    "jdbc:postgresql://s3cret@db/h",
    "postgresql+psycopg://u:s3cret@db/h",
    "PostgreSQL://s3cret",
    "postgresql:/s3cret",
    "//s3cret/h",
    "sqlite:s3cret",
    "s3cret",
    "",
]


@pytest.mark.parametrize("before", ["'", '"', " "])
def test_url_with_a_quote_or_blank_around_it_is_refused_with_what_to_remove(before: str) -> None:
    with pytest.raises(Misconfigured, match="begins with a quote or a blank; remove it"):
        kind_of(f"{before}postgresql://u@db/h{before}")


@pytest.mark.parametrize("url", OTHERS)
def test_another_kind_of_url_is_refused_without_quoting_it(url: str) -> None:
    with pytest.raises(Misconfigured, match="use postgresql://") as refused:
        kind_of(url)
    assert "s3cret" not in refused.value.message
