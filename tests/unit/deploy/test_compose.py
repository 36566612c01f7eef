"""The services of `docker-compose.yml` are hardened, and every file they name exists."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from hookfast.cli.api import KEEP_ALIVE_SECONDS
from hookfast.connections.connections import HEAD_SECONDS
from hookfast.connections.protocol import BoundedHttp
from hookfast.deliveries.retry_plan import PRESETS
from hookfast.settings.settings import Settings
from hookfast.temporal.connection import CLOSED_WORKFLOWS_KEPT

ROOT = Path(__file__).parents[3]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
JOBS = {"migrate", "temporal-schema", "temporal-namespace", "alert-rules"}
OURS = {"migrate", "api-1", "api-2", "worker-1", "worker-2", "alert-rules"}
NO_SHELL = {"otel-collector"}  # its image has no program for a health check

each_service = pytest.mark.parametrize("name", sorted(SERVICES))


def _filled(text: str) -> str:
    """Return the text with the defaults of Compose's `${NAME:-default}`."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


def _seconds(text: str) -> int:
    match = re.fullmatch(r"(\d+)s", text)
    assert match
    return int(match[1])


def _mounts() -> Iterator[tuple[str, str]]:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", []):
            yield name, volume


def test_every_service_is_there() -> None:
    assert SERVICES.keys() == OURS | JOBS | {
        *("proxy", "postgresql", "temporal", "temporal-ui", "mailpit"),
        *("otel-collector", "prometheus", "grafana"),
    }
    assert not any("replicas" in service["deploy"] for service in SERVICES.values())


def _bytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([MG])", _filled(text)).groups()  # type: ignore[union-attr]
    return int(number) * {"M": 2**20, "G": 2**30}[unit]


def test_trial_without_profiles_is_six_services_within_three_gigabytes() -> None:
    trial = {name: one for name, one in SERVICES.items() if "profiles" not in one}
    assert trial.keys() == JOBS - {"alert-rules"} | {
        *("postgresql", "temporal", "temporal-ui", "api-1", "worker-1", "proxy")
    }
    running = [one for name, one in trial.items() if name not in JOBS]
    limits = [one["deploy"]["resources"]["limits"]["memory"] for one in running]
    assert sum(map(_bytes, limits)) <= 3 * 2**30


def test_profiles_add_the_second_processes_mail_and_monitoring() -> None:
    added: dict[str, set[str]] = {}
    for name, service in SERVICES.items():
        for profile in service.get("profiles", []):
            added.setdefault(profile, set()).add(name)
    assert added == {
        "second": {"api-2", "worker-2"},
        "mail": {"mailpit"},
        "observe": {"otel-collector", "prometheus", "grafana", "alert-rules"},
    }


@each_service
def test_no_service_requires_one_of_another_profile(name: str) -> None:
    """Compose rejects the file otherwise."""
    own = set(SERVICES[name].get("profiles", []))
    for other, how in SERVICES[name].get("depends_on", {}).items():
        profiles = set(SERVICES[other].get("profiles", []))
        assert not profiles or profiles & own or how.get("required") is False, other


def test_production_file_sets_every_profile_and_only_variables_of_compose() -> None:
    lines = (ROOT / "deploy/compose/production.env").read_text().splitlines()
    given = dict(line.lstrip("#").split("=", 1) for line in lines if "=" in line)
    file = (ROOT / "docker-compose.yml").read_text()
    assert given.keys() - {"COMPOSE_PROFILES"} <= set(re.findall(r"\$\{(\w+):-", file))
    assert set(given["COMPOSE_PROFILES"].split(",")) == {"second", "mail", "observe"}
    assert given["HOOKFAST_APIS"].split() == ["api-1:8080", "api-2:8080"]
    assert given["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] == "http://otel-collector:4318/v1/traces"
    assert not _filled(COMPOSE["x-settings"]["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"])


@each_service
def test_images_are_pinned_to_a_version(name: str) -> None:
    image = _filled(SERVICES[name]["image"]).partition("@")[0]
    repository, _, tag = image.rpartition(":")
    assert repository
    assert re.search(r"\d+\.\d+", tag), f"{image} may change without notice"


@each_service
def test_no_container_runs_as_root_or_has_or_gains_a_capability(name: str) -> None:
    service = SERVICES[name]
    assert str(service["user"]).partition(":")[0] not in ("", "0", "root")
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")


_PROXY = (ROOT / "deploy/compose/proxy/Dockerfile").read_text()
_WITHOUT_CAPABILITIES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


def test_the_proxys_image_removes_the_capability_of_its_binary() -> None:
    """The kernel does not execute a file with capabilities in a container that may have none
    (EPERM, capabilities(7))."""
    (copies, others) = re.findall(r"^RUN (.+)$", _PROXY, re.MULTILINE)
    assert re.fullmatch(r"cp (\S+/caddy) (\S+) && mv \2 \1", copies)
    assert "caddy" not in _PROXY.partition("USER")[2]
    assert "setcap" not in others


@pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("setcap", "setpriv"))),
    reason="only root may give a file a capability",
)
def test_binary_copied_as_in_the_proxys_image_runs_without_capabilities(
    tmp_path: Path,
) -> None:
    binary = tmp_path / "caddy"
    shutil.copy(shutil.which("true") or "", binary)
    subprocess.run(["setcap", "cap_net_bind_service=+ep", binary], check=True)
    run = [*_WITHOUT_CAPABILITIES, str(binary)]
    denied = subprocess.run(run, capture_output=True, text=True)
    assert "Operation not permitted" in denied.stderr

    (copies, _) = re.findall(r"^RUN (.+)$", _PROXY, re.MULTILINE)
    done = copies.replace("/usr/bin/", f"{tmp_path}/")
    subprocess.run(["sh", "-euc", done], check=True)

    subprocess.run(run, check=True)
    assert os.access(binary, os.X_OK)


@each_service
def test_every_container_has_resource_limits_and_a_maximum_log_size(name: str) -> None:
    limits = SERVICES[name]["deploy"]["resources"]["limits"]
    assert limits.keys() == {"cpus", "memory", "pids"}
    assert SERVICES[name]["logging"]["options"]["max-size"]


@each_service
def test_services_are_restarted_and_health_checked_and_jobs_only_restart_on_failure(
    name: str,
) -> None:
    service = SERVICES[name]
    if name in JOBS:
        assert service["restart"].startswith("on-failure")
        assert "healthcheck" not in service
        return
    assert service["restart"] == "unless-stopped"
    if name in NO_SHELL:
        assert service["healthcheck"] == {"disable": True}
    else:
        assert service["healthcheck"]["test"][0] == "CMD"


@each_service
def test_services_wait_for_jobs_to_complete_and_for_services_to_be_healthy(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        wanted = "service_completed_successfully" if other in JOBS else "service_healthy"
        assert how["condition"] == wanted
        assert other not in NO_SHELL


def test_a_running_service_waits_for_each_job() -> None:
    """Otherwise `up --wait` reports the end of a job as a failure (docker/compose#10596)."""
    awaited = {
        other
        for name, service in SERVICES.items()
        if name not in JOBS
        for other in service.get("depends_on", {})
    }
    assert awaited >= JOBS


@each_service
def test_only_the_proxy_is_reachable_from_other_machines(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert name == "proxy" or port.startswith("127.0.0.1:")
    assert "network_mode" not in SERVICES[name]


@pytest.mark.parametrize("name", sorted(OURS))
def test_hookfasts_root_file_system_is_read_only(name: str) -> None:
    assert SERVICES[name]["read_only"] is True


@pytest.mark.parametrize("name", sorted(OURS))
def test_every_hookfast_variable_is_a_setting(name: str) -> None:
    known = {f"HOOKFAST_{field.upper()}" for field in Settings.model_fields}
    for variable in SERVICES[name]["environment"]:
        if variable.startswith("HOOKFAST_"):
            assert variable.removesuffix("_FILE") in known


@each_service
def test_no_secret_is_in_the_environment(name: str) -> None:
    for variable, value in SERVICES[name].get("environment", {}).items():
        if re.search(r"PASSWORD|PWD|TOKEN|SECRET|_KEYS?\b|DATABASE_URL|SMTP_URL", variable):
            assert value.startswith("/run/secrets/"), f"{variable} is not a secret file"


@each_service
def test_every_secret_that_is_read_is_mounted(name: str) -> None:
    service = SERVICES[name]
    named = set(re.findall(r"/run/secrets/(\w+)", str(service)))
    assert named <= set(service.get("secrets", []))
    assert set(service.get("secrets", [])) <= COMPOSE["secrets"].keys()


def test_every_mounted_file_exists_and_is_read_only() -> None:
    for name, volume in _mounts():
        source, _, rest = volume.partition(":")
        if source.startswith("./"):
            assert (ROOT / source).is_file(), f"{name} mounts {source}"
            assert rest.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]


def test_every_named_network_and_build_exists() -> None:
    for service in SERVICES.values():
        assert set(service["networks"]) <= COMPOSE["networks"].keys()
        if "build" in service:
            assert (ROOT / service["build"] / "Dockerfile").is_file()


def test_the_database_and_temporal_are_on_an_internal_network_without_ports() -> None:
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    for name in ("postgresql", "temporal", "temporal-schema", "temporal-namespace", "migrate"):
        assert SERVICES[name]["networks"] == ["inside"]
        assert "ports" not in SERVICES[name]


def test_only_the_proxys_network_is_a_trusted_proxy() -> None:
    (front,) = COMPOSE["networks"]["front"]["ipam"]["config"]
    assert COMPOSE["x-settings"]["HOOKFAST_TRUSTED_PROXIES"] == front["subnet"]
    members = {name for name, service in SERVICES.items() if "front" in service["networks"]}
    assert members == {"proxy", "api-1", "api-2"}


def test_a_worker_may_stop_for_longer_than_its_grace_period() -> None:
    grace = Settings.model_fields["shutdown_grace"].default.total_seconds()
    for name in ("worker-1", "worker-2"):
        assert _seconds(SERVICES[name]["stop_grace_period"]) > grace


def test_temporal_has_512_shards_and_one_version() -> None:
    assert SERVICES["temporal"]["environment"]["NUM_HISTORY_SHARDS"] == "512"
    versions = {
        SERVICES[name]["image"].partition("@")[0].rpartition(":")[2]
        for name in ("temporal", "temporal-schema", "temporal-namespace")
    }
    assert len(versions) == 1, "the schema and the server have different versions"


def test_temporal_keeps_closed_workflows_longer_than_a_preset_retry_plan_and_no_longer() -> None:
    days = re.fullmatch(
        r"(\d+)d", _filled(SERVICES["temporal-namespace"]["environment"]["RETENTION"])
    )
    assert days
    retention = timedelta(days=int(days[1]))
    assert retention == CLOSED_WORKFLOWS_KEPT
    longest = max(plan.length for plan in PRESETS.values())
    assert timedelta(0) < retention - timedelta(seconds=longest) < timedelta(days=1)


_NAMESPACE_SH = ROOT / "deploy/compose/temporal/namespace.sh"
_FAKE_TEMPORAL = """#!/bin/sh
echo "$*" >> "$CALLS"
case "$*" in *describe*) exit "$MISSING" ;; esac
"""


@pytest.mark.parametrize(("missing", "verb"), [("0", "update"), ("1", "create")])
def test_the_namespace_gets_the_retention_of_compose_whether_it_exists_or_not(
    missing: str, verb: str, tmp_path: Path
) -> None:
    fake = tmp_path / "temporal"
    fake.write_text(_FAKE_TEMPORAL)
    fake.chmod(0o755)
    calls = tmp_path / "calls"
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "CALLS": str(calls),
        "MISSING": missing,
        "TEMPORAL_NAMESPACE": "hooks",
        "RETENTION": "4d",
    }
    subprocess.run(["sh", str(_NAMESPACE_SH)], env=environment, check=True)
    last = calls.read_text().splitlines()[-1]
    assert last == f"operator namespace {verb} --namespace hooks --retention 4d"


def test_the_proxy_forwards_to_every_api_and_hides_metrics() -> None:
    (upstreams,) = re.findall(r"reverse_proxy (.*) \{", CADDYFILE)
    assert upstreams == "{$APIS}"
    assert _filled(SERVICES["proxy"]["environment"]["APIS"]) == "api-1:8080"
    assert "respond /metrics 404" in CADDYFILE


CADDYFILE = (ROOT / "deploy/compose/proxy/Caddyfile").read_text()


def _option(name: str) -> int:
    """Return the number of an option of the Caddyfile, in seconds, KB or MB as it is written."""
    (found,) = re.findall(rf"^\t+{name} (\d+)(?:s|KB|MB)$", CADDYFILE, re.MULTILINE)
    return int(found)


def test_the_proxy_lets_through_what_an_api_accepts_and_cuts_off_less_than_it_does() -> None:
    fields = Settings.model_fields
    assert _option("max_header_size") * 1_000 + 4_096 < BoundedHttp.max_head_bytes
    assert _option("read_header") < HEAD_SECONDS
    assert _option("idle") < KEEP_ALIVE_SECONDS
    assert _option("keepalive") < KEEP_ALIVE_SECONDS
    assert _option("read_body") > fields["max_body_seconds"].default.total_seconds()
    assert _option("max_size") * 1_000_000 > fields["max_batch_bytes"].default


def test_the_proxy_has_memory_for_all_connections_that_its_files_allow() -> None:
    """It would be killed otherwise, with everybody's connections."""
    lines = (ROOT / "deploy/compose/production.env").read_text().splitlines()
    production = dict(line.split("=", 1) for line in lines if line[:1] not in ("", "#"))
    proxy = SERVICES["proxy"]
    limits = proxy["ulimits"]["nofile"]
    assert limits["soft"] == limits["hard"]
    memory = proxy["deploy"]["resources"]["limits"]["memory"]
    sizes = [
        (_filled(limits["soft"]), memory),
        (production["HOOKFAST_PROXY_FILES"], production["HOOKFAST_PROXY_MEMORY"]),
    ]
    for files, given in sizes:
        assert 30 * 2**20 + int(files) * 40 * 2**10 <= _bytes(given)
        assert int(files) >= 2_000


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_processes_may_open_a_limited_number_of_files(name: str) -> None:
    limits = SERVICES[name]["ulimits"]["nofile"]
    assert limits["soft"] == limits["hard"] >= 8_192


def test_prometheus_scrapes_every_service() -> None:
    config = yaml.safe_load((ROOT / "deploy/compose/prometheus.yml").read_text())
    hosts = {
        target.partition(":")[0]
        for job in config["scrape_configs"]
        for static in job.get("static_configs", [])
        for target in static["targets"]
    }
    hosts |= {
        name
        for job in config["scrape_configs"]
        for found in job.get("dns_sd_configs", [])
        for name in found["names"]
    }
    assert hosts == {"api-1", "api-2", "worker-1", "worker-2", "temporal"}
    assert config["rule_files"] == ["/etc/prometheus/rules/rules.yml"]


def test_job_writes_the_alert_rules_where_prometheus_reads_them(tmp_path: Path) -> None:
    """Runs the job's own command, with its folder in another place."""
    job, prometheus = SERVICES["alert-rules"], SERVICES["prometheus"]
    assert "alert-rules:/var/lib/hookfast" in job["volumes"]
    assert "alert-rules:/etc/prometheus/rules:ro" in prometheus["volumes"]
    folder = tmp_path / "rules"
    folder.mkdir(mode=0o700)
    (command,) = job["command"]
    subprocess.run(
        [*job["entrypoint"], command.replace("/var/lib/hookfast", str(folder))],
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        | {"PYTHONPATH": os.pathsep.join(sys.path)}
        | {name: _filled(value) for name, value in job["environment"].items()},
        cwd=tmp_path,
        check=True,
    )
    (rules,) = folder.iterdir()
    assert rules.name == "rules.yml"
    assert stat.S_IMODE(rules.stat().st_mode) == 0o644
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert "http://localhost:3000/d/hookfast/hookfast?viewPanel=" in rules.read_text()


def test_the_collectors_and_grafanas_files_fit_together() -> None:
    collector = yaml.safe_load((ROOT / "deploy/compose/otel-collector.yaml").read_text())
    for pipeline in collector["service"]["pipelines"].values():
        for part in ("receivers", "processors", "exporters"):
            assert set(pipeline[part]) <= collector[part].keys()
    grafana = ROOT / "deploy/compose/grafana"
    (provider,) = yaml.safe_load((grafana / "dashboards.yaml").read_text())["providers"]
    mounted = " ".join(SERVICES["grafana"]["volumes"])
    assert f":{provider['options']['path']}/hookfast.json" in mounted
    (source,) = yaml.safe_load((grafana / "datasources.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """The folder of secrets that `make-secrets.sh` creates."""
    folder = tmp_path / "secrets"
    _make_secrets(folder)
    return folder


def _make_secrets(folder: Path) -> str:
    script = ROOT / "deploy/compose/make-secrets.sh"
    return subprocess.run(
        ["sh", str(script), str(folder)], check=True, capture_output=True, text=True
    ).stdout


def test_make_secrets_creates_every_secret_once_and_for_its_owner_only(secrets: Path) -> None:
    made = {path.name: path.read_text() for path in secrets.iterdir()}
    assert made.keys() == COMPOSE["secrets"].keys()
    assert all(declared["file"].endswith(f"secrets/{name}") for name, declared in
               COMPOSE["secrets"].items())  # fmt: skip
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    assert _make_secrets(secrets) == "", "it created some again"
    assert {path.name: path.read_text() for path in secrets.iterdir()} == made


def test_hookfast_reads_the_settings_and_secrets_of_the_services(
    secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for field in Settings.model_fields:
        monkeypatch.delenv(f"HOOKFAST_{field.upper()}", raising=False)
    for variable, value in COMPOSE["x-settings"].items():
        monkeypatch.setenv(variable, _filled(value).replace("/run/secrets", str(secrets)))

    settings = Settings()

    password = (secrets / "hookfast_db_password").read_text().strip()
    assert settings.resolved_database_url == (
        f"postgresql://hookfast:{password}@postgresql:5432/hookfast"
    )
    assert settings.smtp_url is not None
    assert settings.smtp_url.get_secret_value() == "smtp://mailpit:1025"
    assert settings.operator_key is not None
    assert settings.encryption_keys is not None


def test_an_api_has_files_for_all_connections_that_it_may_have() -> None:
    files = SERVICES["api-1"]["ulimits"]["nofile"]["soft"]
    assert files - 256 > Settings.model_fields["max_connections"].default
