"""Why an expression has no result."""

from __future__ import annotations


class EvaluationFailed(Exception):
    """An expression has no result for a value. The message is a sentence for the author of the
    expression, and contains nothing of the value."""
