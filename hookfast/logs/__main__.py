"""`python -m hookfast.logs` prints the JSON Schema of log lines."""

from __future__ import annotations

import json

from hookfast.logs.catalogue import schema

if __name__ == "__main__":
    print(json.dumps(schema(), indent=2))
