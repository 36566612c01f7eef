"""The figures of `make scaling`: limits, the division of the machine, table and picture."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.scaling.division import divide
from bench.scaling.figures import Point, Reading, Use, from_json, next_limit, to_json
from bench.scaling.plot import scaling_plot
from bench.scaling.report import markdown
from bench.shares import NoShares, Share, Usage, _parents

V1 = """tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
"""


def point(workers: int, *rates: float, postgresql: float = 0.3, worker: float = 0.1) -> Point:
    """Return a point whose workers had 0.1 cores each, and PostgreSQL 0.5."""
    uses = {
        "temporal": Use(cores=0.8, used=0.4, throttled=0.1),
        "postgresql": Use(cores=0.5, used=postgresql, throttled=0.2),
        **{f"worker-{n + 1}": Use(cores=0.1, used=worker, throttled=1) for n in range(workers)},
    }
    return Point("batch", workers, None, [Reading(rate, uses) for rate in rates])


@pytest.mark.parametrize(
    ("measured", "limit"),
    [
        (point(1, 20.0), "worker"),
        (point(1, 20.0, worker=0.08), None),
        (point(4, 70.0, worker=0.08, postgresql=0.49), "postgresql"),
    ],
)
def test_limit_is_the_part_that_used_up_its_share(measured: Point, limit: str | None) -> None:
    assert measured.limit == limit


def test_next_limit_is_the_part_with_the_least_left() -> None:
    found = next_limit(point(4, 80.0, 84.0))
    # PostgreSQL uses 0.6 of its share, Temporal 0.5: 0.93 / 0.6 = 1.55
    assert (found.part, round(found.workers, 2), round(found.rate, 1)) == ("postgresql", 6.2, 127.1)


def test_workers_are_averaged_and_their_cost_is_that_of_all() -> None:
    measured = point(4, 80.0)
    assert measured.uses["worker"] == Use(cores=0.1, used=0.1, throttled=1)
    assert measured.milliseconds("worker") == pytest.approx(5.0)  # 4 × 0.1 / 80
    assert measured.milliseconds("temporal") == pytest.approx(5.0)  # 0.4 / 80


def test_division_leaves_the_other_parts_a_reserve_and_adds_up_to_the_machine() -> None:
    shares = divide(point(4, 80.0), workers=4, cores=1.8)
    assert shares["temporal"] + shares["postgresql"] + 4 * shares["worker"] == pytest.approx(
        1.8, abs=0.05
    )
    # 5 and 3.75 ms a delivery at 70 %, 5 ms in the workers: 103 deliveries/s
    assert shares == {"temporal": 0.73, "postgresql": 0.55, "worker": 0.13}


def test_a_worker_gets_at_most_what_one_process_can_use() -> None:
    assert divide(point(1, 80.0), workers=1, cores=64)["worker"] == 0.9


def test_table_and_picture_show_every_point() -> None:
    points = [point(1, 19.0, 21.0), point(2, 40.0), point(4, 78.0)]
    squeezed = Point("batch", 4, "postgresql", [point(4, 33.0, postgresql=0.5).readings[0]])
    table = markdown(from_json(json.loads(json.dumps(to_json([*points, squeezed])))))
    assert "| `batch`, 2 workers | 40.0 | 2.00 | worker |" in table
    assert "4 workers, less for postgresql | 33.0 | 1.65 |" in table
    picture = scaling_plot([*points, squeezed])
    assert picture == scaling_plot([*points, squeezed])
    root = ElementTree.fromstring(picture)  # noqa: S314 - it is ours
    texts = [element.text or "" for element in root.iter()]
    assert any("20 a second with 1 worker, 40 a second with 2 workers" in one for one in texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}circle"))) == 4
    assert "prefers-color-scheme: dark" in picture


def test_groups_are_found_in_version_1(tmp_path: Path) -> None:
    own = "4:memory:/m\n3:cpu,cpuacct:/box\n0::/\n"
    folder = Path("/sys/fs/cgroup/cpu,cpuacct/box")
    assert _parents(V1, own) == (folder, folder)


def test_version_2_is_taken_if_it_divides_the_cpu(tmp_path: Path) -> None:
    group = tmp_path / "user.slice"
    group.mkdir()
    (group / "cgroup.controllers").write_text("cpuset cpu io\n")
    mounts = f"cgroup2 {tmp_path} cgroup2 rw 0 0\n"
    assert _parents(mounts, "0::/user.slice\n") == (group, group)
    (group / "cgroup.controllers").write_text("hugetlb\n")
    with pytest.raises(NoShares, match="as root"):
        _parents(mounts, "0::/user.slice\n")


def test_share_writes_its_quota_and_reads_its_use_in_both_versions(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000")
    (tmp_path / "cpu.stat").write_text("usage_usec 1500000\nnr_periods 9\nnr_throttled 3\n")
    share = Share(tmp_path, tmp_path)
    share.limit(0.25)
    assert (tmp_path / "cpu.max").read_text() == "5000 20000"
    share.limit(0.001)
    assert (tmp_path / "cpu.max").read_text() == "1000 20000"  # the kernel takes no less
    assert share.cores == 0.05
    assert share.usage() == Usage(1.5, 9, 3)
    (tmp_path / "cpu.max").unlink()
    (tmp_path / "cpu.stat").write_text("nr_periods 9\nnr_throttled 3\nthrottled_time 7\n")
    (tmp_path / "cpuacct.usage").write_text("2500000000\n")
    share.limit(None)
    assert (tmp_path / "cpu.cfs_quota_us").read_text() == "-1"
    assert share.usage().since(Usage(1.0, 4, 1)) == Usage(1.5, 5, 2)
