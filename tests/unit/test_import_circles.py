"""No module imports itself through other modules, not even for its types."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def _order(graph: grimp.ImportGraph) -> list[str]:
    """Return the modules of a graph, each after those that it imports. Raises CycleError."""
    modules = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    return [*TopologicalSorter(modules).static_order()]


@pytest.mark.parametrize(
    ("packages", "only_at_run_time"),
    [
        pytest.param(("api", "activities", "workflows", "hookfast"), False, id="service"),
        # its resources and the client that has them know each other's types
        pytest.param(("hookfast_client",), True, id="client"),
    ],
)
def test_no_modules_import_each_other_in_a_circle(
    packages: tuple[str, ...], only_at_run_time: bool
) -> None:
    graph = grimp.build_graph(
        *packages, exclude_type_checking_imports=only_at_run_time, cache_dir=None
    )
    assert len(_order(graph)) > 20


def test_circle_of_imports_is_found() -> None:
    graph = grimp.ImportGraph()
    for importer, imported in (("a", "b"), ("b", "c"), ("c", "a")):
        graph.add_import(importer=importer, imported=imported)
    with pytest.raises(CycleError):
        _order(graph)
