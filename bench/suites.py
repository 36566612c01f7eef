"""Test suites that others wrote, run against our code: `python -m bench.suites <folder>`.

The folder has one folder per suite. Only what is refused by design is not applicable, and each with
its reason.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from api.forms.json_schema import check_schema
from hookfast.errors import InvalidInput
from hookfast.events.schema import CompiledSchema


@dataclass
class Results:
    """What a suite found out."""

    right: int = 0
    wrong: list[str] = field(default_factory=list)
    not_applicable: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        lines = [f"{self.right} right, {len(self.wrong)} wrong"]
        lines += [f"  wrong: {each}" for each in self.wrong]
        lines += [f"  {count} not applicable: {why}" for why, count in self.not_applicable.items()]
        return "\n".join(lines)


def json_schema(folder: Path) -> Results:
    """Run JSON-Schema-Test-Suite's tests of draft 2020-12."""
    results = Results()
    for path in sorted((folder / "draft2020-12").rglob("*.json")):
        groups = json.loads(path.read_text(), parse_float=Decimal)
        for group in groups:
            where = f"{path.relative_to(folder)}: {group['description']}"
            tests = group["tests"]
            if path.parent.name == "format" or path.stem == "format-assertion":
                results.not_applicable["formats are annotations"] += len(tests)
                continue
            try:
                check_schema(group["schema"])
            except InvalidInput as error:
                why = _REFUSED.get(error.errors[0].pointer.rpartition("/")[2])
                if why is None:
                    results.wrong.append(f"{where}: refused, {error.errors[0]}")
                else:
                    results.not_applicable[why] += len(tests)
                continue
            for description, expected, valid in _tried(group["schema"], tests):
                if valid is expected:
                    results.right += 1
                else:
                    results.wrong.append(f"{where}: {description}: {valid}, not {expected}")
    return results


_REFUSED: Final = {
    "$schema": "other dialects are refused",
    "$ref": "references stay inside the schema",
    "$dynamicRef": "references stay inside the schema",
}
"""Why a schema is refused by design, by the keyword to which the error points."""


def _tried(schema: Any, tests: list[Any]) -> Iterator[tuple[str, bool, bool]]:
    compiled = CompiledSchema(schema)
    for test in tests:
        yield test["description"], test["valid"], not compiled.violations(test["data"], most=1)


SUITES: Final[dict[str, Callable[[Path], Results]]] = {"json-schema": json_schema}


def main(folder: Path) -> int:
    """Run every suite in the folder. Return the exit code: 1 if an answer is wrong."""
    wrong = False
    for path in sorted(each for each in folder.iterdir() if each.is_dir()):
        if path.name not in SUITES:
            print(f"{path.name}: nothing runs this suite")
            wrong = True
            continue
        results = SUITES[path.name](path)
        print(f"{path.name}: {results}")
        wrong = wrong or bool(results.wrong)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
