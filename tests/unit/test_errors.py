"""The error tree: every error is a HookfastError with a stable code of its own."""

from __future__ import annotations

import copy
import pickle

import pytest

from hookfast import errors
from hookfast.errors import FieldError, HookfastError, InvalidInput, Unavailable

CODES = {
    "HookfastError": "hookfast_error",
    "InvalidInput": "invalid_input",
    "TooLarge": "too_large",
    "Unauthenticated": "unauthenticated",
    "Forbidden": "forbidden",
    "NotFound": "not_found",
    "Conflict": "conflict",
    "TooManyRequests": "too_many_requests",
    "Unavailable": "unavailable",
    "Misconfigured": "misconfigured",
}


def test_every_error_has_its_own_code_and_is_in_the_drawn_tree() -> None:
    found = {
        name: value.code
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, HookfastError)
    }
    assert found == CODES
    assert errors.__doc__ is not None
    for name in CODES:
        assert name in errors.__doc__


@pytest.mark.parametrize("name", list(CODES))
def test_error_has_a_message_and_may_have_a_narrower_code(name: str) -> None:
    kind = getattr(errors, name)
    assert (kind("no").message, str(kind("no")), kind("no").code) == ("no", "no", CODES[name])
    assert kind("no", code="narrower").code == "narrower"
    assert kind.code == CODES[name]


@pytest.mark.parametrize("duplicate", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301 - our own bytes
def test_error_survives_copy_and_pickle(duplicate: object) -> None:
    assert callable(duplicate)
    error = duplicate(InvalidInput.at("/url", "no userinfo", code="invalid_url"))
    assert (error.message, error.code) == ("no userinfo", "invalid_url")
    assert error.errors == (FieldError("/url", "no userinfo"),)


def test_error_at_a_pointer_has_the_detail_as_its_message() -> None:
    error = InvalidInput.at("/data", "is missing")
    assert error.code == "invalid_input"
    assert error.errors == (FieldError(pointer="/data", detail="is missing"),)
    assert str(error) == "is missing"


def test_unavailable_says_when_to_retry() -> None:
    assert Unavailable("away").retry_after == 5
    assert Unavailable("away", retry_after=30).retry_after == 30
