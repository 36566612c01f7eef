"""Numbers as JSON text, for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

_INTEGERS = st.integers(0, 9).map(str) | st.from_regex(r"[1-9][0-9]{0,40}", fullmatch=True)
_FRACTIONS = st.just("") | st.from_regex(r"\.[0-9]{1,40}", fullmatch=True)
_EXPONENTS = st.just("") | st.builds(
    "{}{}{}".format,
    st.sampled_from("eE"),
    st.sampled_from(["", "+", "-"]),
    st.integers(0, 250).map(str) | st.sampled_from(["00", "007"]),
)

NUMBERS = st.builds(
    "{}{}{}{}".format, st.sampled_from(["", "-"]), _INTEGERS, _FRACTIONS, _EXPONENTS
)
"""Every way to write a number that the strict parser accepts, up to 1e291."""
