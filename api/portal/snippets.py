"""Code that a customer copies: small receivers in six languages that verify deliveries and answer
the challenge, filled with the values of an endpoint. Pure.

The programs are the templates in `receivers/`. They use the standard library of their language
only, except for Ruby, whose standard library has no web server any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hookfast.sender.verify import CHALLENGE_HEADER, CHALLENGE_PARAMETER, Mode
from hookfast.signing.signature import MIN_KEY_BYTES, HashName, Profile

VARIABLE: Final = "WEBHOOK_SECRET"
"""The environment variable from which a receiver reads its secret if none is filled in."""
TOLERANCE: Final = timedelta(minutes=5)
"""How far the time of a signature may be from the receiver's clock."""
PORT: Final = 3000
MAX_BYTES: Final = 2_000_000
"""Largest body that a receiver accepts: more than the largest event."""


@dataclass(frozen=True, slots=True)
class Language:
    """A language of the snippets: its id in addresses, its name, the oldest version that runs them,
    and how to run a receiver."""

    id: str
    name: str
    since: str
    file: str
    run: str


_LANGUAGES = (
    Language("python", "Python", "3.9", "receiver.py", "python3 receiver.py"),
    Language("node", "Node", "16", "receiver.mjs", "node receiver.mjs"),
    Language("go", "Go", "1.19", "receiver.go", "go run receiver.go"),
    Language("php", "PHP", "8.0", "receiver.php", "php -S 127.0.0.1:{port} receiver.php"),
    Language("ruby", "Ruby", "3.0", "receiver.rb", "ruby receiver.rb"),
    Language("java", "Java", "17", "Receiver.java", "java Receiver.java"),
)
LANGUAGES: Final[Mapping[str, Language]] = {each.id: each for each in _LANGUAGES}
"""The languages by their ids, in the order in which they are offered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scheme:
    """How a profile signs: the headers whose values are signed before the body, by the names of
    variables, each followed by a dot; and how the signature is written."""

    parts: tuple[tuple[str, str], ...]
    signature_header: str
    prefix: str
    separator: Literal[" ", ","]
    encoding: Literal["base64", "hex"]
    id_header: str = "X-Hook-Id"


_SCHEMES: Final[Mapping[Profile, _Scheme]] = {
    Profile.STANDARD: _Scheme(
        parts=(("id", "webhook-id"), ("timestamp", "webhook-timestamp")),
        signature_header="webhook-signature",
        prefix="v1,",
        separator=" ",
        encoding="base64",
        id_header="webhook-id",
    ),
    Profile.NONCE: _Scheme(
        parts=(("timestamp", "X-Webhook-Timestamp"), ("nonce", "X-Webhook-Nonce")),
        signature_header="X-Webhook-Signature",
        prefix="{hash}=",
        separator=",",
        encoding="hex",
    ),
    Profile.HOOK: _Scheme(
        parts=(("timestamp", "X-Hook-Timestamp"),),
        signature_header="X-Hook-Signature",
        prefix="{hash}=",
        separator=",",
        encoding="hex",
    ),
    Profile.BODY: _Scheme(
        parts=(),
        signature_header="X-Webhook-Signature",
        prefix="{hash}=",
        separator=",",
        encoding="hex",
    ),
}
"""The profiles that a secret verifies, the strongest first."""


def snippet_profile(signatures: Sequence[str]) -> Profile | None:
    """Return the profile of an endpoint that the snippets verify: the strongest profile with
    its secret. None if it only has signatures by public keys."""
    return next((profile for profile in _SCHEMES if profile in signatures), None)


def verify_snippet(
    language: str,
    *,
    signatures: Sequence[str],
    hash_name: str = HashName.SHA256,
    secrets: Sequence[str] = (),
    challenge: Mode = "header",
    port: int = PORT,
) -> str:
    """Return a receiver that verifies the deliveries of an endpoint with these `signatures`, whose
    `hook` uses `hash_name`, and that answers its challenge.

    `secrets`, newest first, are filled in; without any, they are read from VARIABLE. Raises
    ValueError for an unknown language, and if no secret verifies the signatures (see
    `snippet_profile`).
    """
    profile = snippet_profile(signatures)
    if profile is None:
        raise ValueError("no signature of this endpoint is made with its secret")
    scheme = _SCHEMES[profile]
    hashed = HashName(hash_name) if profile is Profile.HOOK else HashName.SHA256
    return _render(
        "verify",
        language,
        parts=scheme.parts,
        timestamp=any(name == "timestamp" for name, _ in scheme.parts),
        signature_header=scheme.signature_header,
        id_header=scheme.id_header,
        prefix=scheme.prefix.format(hash=hashed),
        separator=scheme.separator,
        encoding=scheme.encoding,
        hash=hashed.value,
        secrets=secrets,
        variable=VARIABLE,
        min_key_bytes=MIN_KEY_BYTES,
        tolerance=f"{TOLERANCE.total_seconds():.0f}",
        max_bytes=f"{MAX_BYTES:_}",
        challenge=challenge,
        port=port,
    )


def challenge_snippet(
    language: str, *, mode: Literal["header", "query"] = "header", port: int = PORT
) -> str:
    """Return a receiver that only answers the challenge of a new endpoint, whose secret is not
    known yet. Raises ValueError for an unknown language."""
    return _render("challenge", language, challenge=mode, port=port)


def send_snippet(body: str, *, port: int = PORT) -> str:
    """Return shell commands that sign `body` with the secret in VARIABLE, for the profile
    `standard`, and send it to a receiver on this machine."""
    template = _templates("sh").get_template("send.sh.txt")
    return template.render(body=body, port=port, variable=VARIABLE)


def run_command(language: str, *, port: int = PORT) -> str:
    """Return the command that runs a receiver, which is in the language's `file`."""
    return _language(language).run.format(port=port)


def _render(kind: str, language: str, *, port: int, **values: object) -> str:
    template = _templates(_language(language).id).get_template(f"{kind}.{language}.txt")
    return template.render(
        run=run_command(language, port=port),
        port=port,
        challenge_header=CHALLENGE_HEADER,
        challenge_parameter=CHALLENGE_PARAMETER,
        **values,
    )


def _language(name: str) -> Language:
    try:
        return LANGUAGES[name]
    except KeyError:
        raise ValueError(f"unknown language; use one of {', '.join(LANGUAGES)}") from None


@lru_cache
def _templates(language: str) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "receivers"),
        autoescape=False,  # noqa: S701 - not HTML; `literal` escapes what is filled in
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["literal"] = lambda text: literal(language, text)
    environment.filters["php_server"] = lambda name: "HTTP_" + name.upper().replace("-", "_")
    return environment


def literal(language: str, text: str) -> str:
    """Return a string literal of the language with exactly this text, in printable ASCII. No text
    ends the literal, starts an interpolation, or changes the line."""
    escape = _ESCAPES[language]
    also = {"php": "$", "ruby": "#"}.get(language, "")
    characters = [
        f"\\{each}"
        if each in '"\\' + also
        else each
        if " " <= each <= "~"
        else escape(ord(each) if not 0xD800 <= ord(each) < 0xE000 else 0xFFFD)
        for each in text
    ]
    return f'"{"".join(characters)}"'


def _java(code: int) -> str:
    # Java replaces \uXXXX before it looks for the ends of literals and lines, so a control
    # character has to be an octal escape.
    if code < 0x80:
        return f"\\{code:03o}"
    units = chr(code).encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _fixed(code: int) -> str:
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _braces(code: int) -> str:
    return f"\\u{{{code:x}}}"


_ESCAPES: Final[Mapping[str, Callable[[int], str]]] = {
    "python": _fixed,
    "node": _braces,
    "go": _fixed,
    "php": _braces,
    "ruby": _braces,
    "java": _java,
}
