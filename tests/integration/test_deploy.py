"""The files in deploy/ for containers, Kubernetes and systemd are valid, and their processes run.

No container engine is needed. The commands of the manifests run as local processes, with the
environment that the manifests give them. Loopback addresses replace host names, and files of the
test replace the paths of secrets.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from flinknet.cluster.control.client import CoordinatorClient
from flinknet.cluster.control.submission import Submission
from flinknet.config import ClusterConfig
from flinknet.config.loading import NOT_OPTIONS, load_settings, options
from tests.certificates import Authority
from tests.integration.test_local_cluster import sums

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PATIENCE_S = 60.0
"""Seconds after which a hanging test fails with a message."""

OVERLAYS = ("token", "tls")
COMPOSE_ONLY = {"FLINKNET_SECRETS", "FLINKNET_DASHBOARDS"}
"""Variables of compose and Grafana, which no process of flinknet gets."""
TOKEN = "0123456789abcdef0123456789abcdef"

Manifest = dict[str, Any]


def tool(name: str) -> str:
    """Return the path of a program, installed beside this Python or on the search path."""
    found = shutil.which(
        name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    )
    if found is None:
        pytest.skip(f"there is no {name} (pip install -e '.[dev]')")
    return found


def run(*command: str | Path, **options: Any) -> str:
    """Run a program that must succeed; return its output."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, **options
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@cache
def built(overlay: str) -> tuple[Manifest, ...]:
    """Return the manifests of an overlay."""
    text = run(tool("kubectl"), "kustomize", DEPLOY / "kubernetes" / "overlays" / overlay)
    return tuple(yaml.safe_load_all(text))


def of_kind(manifests: tuple[Manifest, ...], kind: str) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in manifests if one["kind"] == kind}


@cache
def compose() -> Manifest:
    loaded: Manifest = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    return loaded


# -- each file by itself


def test_variables_are_known_options_and_values_are_accepted() -> None:
    known = {option.variable for option in options().values()} | NOT_OPTIONS | COMPOSE_ONLY
    named = {
        variable: path
        for path in DEPLOY.rglob("*")
        if path.is_file()
        for variable in re.findall(r"FLINKNET_[A-Z_]+\b", path.read_text())
    }
    # a variable that Kubernetes would set, and those of the units
    known |= {"FLINKNET_COORDINATOR_PORT"}
    assert {variable: path for variable, path in named.items() if variable not in known} == {}
    for process in chain(of_compose(), *(of_kubernetes(overlay) for overlay in OVERLAYS)):
        load_settings(None, process.environment, {})
    for file in (DEPLOY / "systemd").glob("*.toml"):
        load_settings(file, {}, {})


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_manifests_of_kubernetes_are_of_their_schemas(overlay: str) -> None:
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    for manifest in built(overlay):
        if not manifest["apiVersion"].startswith("cert-manager.io/"):
            kubernetes_validate.validate(manifest, "1.34", strict=True)


def test_compose_is_of_its_schema() -> None:
    file = DEPLOY / "compose" / "compose.yaml"
    run(tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", file)


def test_prometheus_accepts_its_configuration() -> None:
    for file in (DEPLOY / "prometheus.yml", DEPLOY / "compose" / "prometheus.yml"):
        run(tool("promtool"), "check", "config", "--syntax-only", file)


def test_units_are_accepted_and_little_exposed(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    for unit in (DEPLOY / "systemd").glob("*.service"):
        copy = tmp_path / unit.name
        copy.write_text(unit.read_text().replace("/opt/flinknet/bin/python", sys.executable))
        said = subprocess.run(
            [analyze, "verify", copy], capture_output=True, text=True, timeout=60, check=False
        )
        assert [line for line in said.stderr.splitlines() if unit.name in line] == []
        # The scale is 0 to 100; systemd calls an exposure below 20 small.
        run(analyze, "security", "--offline=true", "--threshold=20", copy)


# -- agreement between files


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_names_and_ports_of_kubernetes_agree(overlay: str) -> None:
    manifests = built(overlay)
    settings = {
        name: load_settings(None, process.environment, {}).config.cluster
        for process in of_kubernetes(overlay)
        for name in [process.name]
    }
    sets = of_kind(manifests, "StatefulSet")
    ports: dict[str, dict[str, int]] = {}
    for name, one in sets.items():
        pod = one["spec"]["template"]
        [container] = pod["spec"]["containers"]
        ports[name] = {port["name"]: port["containerPort"] for port in container["ports"]}
        service = of_kind(manifests, "Service")[one["spec"]["serviceName"]]["spec"]
        component = {"app.kubernetes.io/component": container["name"]}
        assert service["selector"] == one["spec"]["selector"]["matchLabels"] == component
        assert component.items() <= pod["metadata"]["labels"].items()
        for port in service["ports"]:
            assert ports[name][port["targetPort"]] == port["port"]
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container.get(kind, {})
            assert probe.get("tcpSocket", {"port": "metrics"})["port"] in {*ports[name], "metrics"}
            if "httpGet" in probe:
                # /readyz would never be 200, because workers register through the Service.
                assert (probe["httpGet"]["port"], probe["httpGet"]["path"]) == ("http", "/livez")
                assert probe["httpGet"].get("scheme", "HTTP") == (
                    "HTTPS" if overlay == "tls" else "HTTP"
                )
    policies = of_kind(manifests, "NetworkPolicy")
    for name, policy in policies.items():
        rules = policy["spec"]["ingress"]
        assert {port["port"] for rule in rules for port in rule["ports"]} == set(ports[name])
    [budget] = of_kind(manifests, "PodDisruptionBudget").values()
    workers = sets["flinknet-worker"]["spec"]
    assert budget["spec"]["selector"] == workers["selector"]
    assert workers["replicas"] == settings["flinknet-coordinator-0"].workers
    [coordinator, worker, *_] = of_kubernetes(overlay)
    assert coordinator.cluster.coordinator_port == ports["flinknet-coordinator"]["http"]
    assert f"--coordinator={coordinator.cluster.advertised_host}:8081" in worker.command
    assert f"--data-port={ports['flinknet-worker']['data']}" in worker.command
    assert f"--metrics-port={ports['flinknet-worker']['metrics']}" in worker.command


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_may_do_little_and_have_time_to_drain(overlay: str) -> None:
    for name, one in of_kind(built(overlay), "StatefulSet").items():
        pod = one["spec"]["template"]["spec"]
        [container] = pod["containers"]
        # Kubernetes would set FLINKNET_COORDINATOR_PORT, which is no option.
        assert pod["enableServiceLinks"] is False
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        claims = {one["metadata"]["name"] for one in one["spec"].get("volumeClaimTemplates", [])}
        assert set(mounts) == {volume["name"] for volume in pod["volumes"]} | claims
        assert mounts["temporary"] == "/tmp"
        for volume in pod["volumes"]:
            assert volume.get("secret", {"defaultMode": 0o440})["defaultMode"] == 0o440
        [process, *_] = [it for it in of_kubernetes(overlay) if it.name.startswith(name)]
        cluster = process.cluster
        needed = cluster.drain_timeout_ms if "worker" in name else 0
        needed += cluster.stop_timeout_ms
        assert 1000 * pod["terminationGracePeriodSeconds"] > needed


def test_certificates_of_kubernetes_have_the_names_that_are_checked() -> None:
    manifests = built("tls")
    certificates = of_kind(manifests, "Certificate")
    issuers = of_kind(manifests, "Issuer")
    assert {one["spec"]["issuerRef"]["name"] for one in certificates.values()} == set(issuers)
    ca = issuers["flinknet"]["spec"]["ca"]["secretName"]
    assert certificates["flinknet-authority"]["spec"]["secretName"] == ca
    for name in ("flinknet-coordinator", "flinknet-worker"):
        pod = of_kind(manifests, "StatefulSet")[name]["spec"]["template"]["spec"]
        secrets = {
            volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume
        }
        assert secrets == {"flinknet-token", certificates[name]["spec"]["secretName"]}
    coordinator, *workers = of_kubernetes("tls")
    names = certificates["flinknet-coordinator"]["spec"]["dnsNames"]
    assert coordinator.cluster.advertised_host in names
    names = certificates["flinknet-worker"]["spec"]["dnsNames"]
    for worker in workers:
        assert worker.name in names
        host = worker.cluster.advertised_host
        assert host == f"{worker.name}.flinknet-worker.flinknet.svc"
        assert f"*.{host.partition('.')[2]}" in names


def test_secrets_of_compose_are_all_mounted_and_services_drain_in_time() -> None:
    services = compose()["services"]
    mounted = set()
    for service in services.values():
        mounted |= {one if isinstance(one, str) else one["source"] for one in service["secrets"]}
    assert mounted == set(compose()["secrets"])
    for process in of_compose():
        grace = services[process.name]["stop_grace_period"]
        cluster = process.cluster
        assert 1000 * int(grace.removesuffix("s")) > (
            cluster.drain_timeout_ms + cluster.stop_timeout_ms
        )
        assert cluster.advertised_host == process.name
    config = (DEPLOY / "compose" / "prometheus.yml").read_text()
    assert re.findall(r"/run/secrets/([\w.]+)", config).count("read.token") == 2
    assert "https://coordinator:8081/metrics/targets" in config


# -- running processes


@dataclass(frozen=True)
class Started:
    """A process as a manifest describes it."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    secrets: Mapping[str, str]
    """Files of the test by the path that the process reads."""
    config: Path | None = None

    @property
    def cluster(self) -> ClusterConfig:
        return load_settings(self.config, self.environment, {}).config.cluster

    def at(self, places: Mapping[str, str]) -> Started:
        """Return the process with each key of ``places`` replaced by its value."""

        def moved(text: str) -> str:
            for before, after in places.items():
                text = text.replace(before, after)
            return text

        environment = {name: moved(value) for name, value in self.environment.items()}
        return replace(
            self, command=tuple(map(moved, self.command)), environment=environment, secrets={}
        )


def of_compose() -> list[Started]:
    found = []
    for name, service in compose()["services"].items():
        if service["image"] != "flinknet":
            continue
        secrets = {}
        for one in service["secrets"]:
            source, target = (one, one) if isinstance(one, str) else (one["source"], one["target"])
            file = compose()["secrets"][source]["file"]
            secrets[f"/run/secrets/{target}"] = file.partition("}/")[2]
        environment = {key: str(value) for key, value in service["environment"].items()}
        found.append(Started(name, tuple(service["command"]), environment, secrets))
    return found


def of_kubernetes(overlay: str) -> list[Started]:
    manifests = built(overlay)
    maps = of_kind(manifests, "ConfigMap")
    found = []
    for name, one in of_kind(manifests, "StatefulSet").items():
        [container] = one["spec"]["template"]["spec"]["containers"]
        [source] = container["envFrom"]
        for number in range(one["spec"]["replicas"]):
            fields = {"metadata.name": f"{name}-{number}", "metadata.namespace": "flinknet"}
            environment: dict[str, str] = dict(maps[source["configMapRef"]["name"]]["data"])
            expanded: dict[str, str] = {}
            for variable in container["env"]:
                value = variable.get("value")
                if value is None:
                    value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
                expanded[variable["name"]] = _expanded(value, expanded)
            command = tuple(_expanded(word, expanded) for word in container["command"])
            role = "coordinator" if "coordinator" in name else f"worker-{number + 1}"
            files = {"tls.crt": f"{role}.pem", "tls.key": f"{role}.key", "ca.crt": "ca.pem"}
            secrets = {f"/run/secrets/flinknet-tls/{key}": file for key, file in files.items()}
            secrets["/run/secrets/flinknet/token"] = "token"
            environment |= expanded
            found.append(Started(fields["metadata.name"], command, environment, secrets))
    return found


def _expanded(text: str, variables: Mapping[str, str]) -> str:
    return re.sub(r"\$\((\w+)\)", lambda match: variables[match[1]], text)


def of_systemd(folder: Path) -> list[Started]:
    """Return coordinator and two workers of the units, with their configuration files."""
    found = []
    variables = dict(
        re.findall(r"^(\w+)=(.*)$", (DEPLOY / "systemd/worker.env").read_text(), re.MULTILINE)
    )
    variables |= {"DATA_PORT": "0", "METRICS_PORT": "0"}
    units = [("flinknet-coordinator", "coordinator"), *(("flinknet-worker@", "worker"),) * 2]
    for number, (unit, role) in enumerate(units):
        text = (DEPLOY / "systemd" / f"{unit}.service").read_text()
        for specifier, value in (
            ("%d", "/credentials"),
            ("%S", "/var/lib"),
            ("%l", "worker"),
            ("%i", str(number)),
        ):
            text = text.replace(specifier, value)
        [start] = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
        start = re.sub(r"\$\{(\w+)\}", lambda match: variables[match[1]], start)
        environment = dict(
            pair.partition("=")[::2]
            for line in re.findall(r"^Environment=(.*)$", text, re.MULTILINE)
            for pair in shlex.split(line)
        )
        config = folder / f"{role}-{number}.toml"
        name = role if role == "coordinator" else f"worker-{number}"
        shutil.copy(DEPLOY / "systemd" / f"{role}.toml", config)
        secrets = {
            "/credentials/token": "token",
            f"/etc/flinknet/{role}.toml": str(config),
            f"/etc/flinknet/tls/{role}.pem": f"{name}.pem",
            f"/etc/flinknet/tls/{role}.key": f"{name}.key",
            "/etc/flinknet/tls/ca.pem": "ca.pem",
        }
        found.append(Started(name, tuple(shlex.split(start)), environment, secrets, config))
    return found


class Machines:
    """The processes of manifests, each at a loopback address of its own."""

    def __init__(self, folder: Path, secrets: Path) -> None:
        self.folder = folder
        self._secrets = secrets
        self._stack = AsyncExitStack()
        # Other tests may use the same ports at the same time.
        self._network = f"127.{1 + os.getpid() // 250 % 250}.{os.getpid() % 250}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._stack.aclose()

    @property
    def address(self) -> str:
        return f"{self._network}.1:8081"

    def host(self, number: int) -> str:
        return f"{self._network}.{number + 1}"

    def placed(self, process: Started, number: int) -> Started:
        """Return a process with the local addresses and files."""
        own = self.host(number)
        files = {path: str(self._secrets / file) for path, file in process.secrets.items()}
        directories = {"/var/lib": str(self.folder)}
        names = {"python": sys.executable, "/opt/flinknet/bin/python": sys.executable}
        first, *others = process.command
        process = replace(process, command=(names[first], *others))
        others_at = {
            f"{name}:8081": self.address
            for name in ("flinknet-coordinator", "coordinator.example.org", "coordinator")
        }
        if process.config is not None:
            text = process.config.read_text()
            here = {"0.0.0.0": own, '"coordinator.example.org"': f'"{own}"'}
            for before, after in (files | here).items():
                text = text.replace(before, after)
            process.config.write_text(text)
        if "FLINKNET_CLUSTER_ADVERTISED_HOST" in process.environment:
            advertised = {"FLINKNET_CLUSTER_ADVERTISED_HOST": own}
            process = replace(process, environment={**process.environment, **advertised})
        return process.at(others_at | files | directories | {"0.0.0.0": own})

    async def start(self, process: Started, name: str) -> Process:
        """Start a process, with its log in a file."""
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            # The certificate is for a name, but the coordinator is dialled at an address here.
            **({"FLINKNET_CLUSTER_TLS_COORDINATOR_NAME": name} if name else {}),
            **process.environment,
        }
        with (self.folder / f"{process.name}.log").open("wb") as log:
            started = await asyncio.create_subprocess_exec(
                *process.command,
                env=environment,
                cwd=self.folder,
                stdin=DEVNULL,
                stdout=PIPE if "coordinator" in process.name else log,
                stderr=log,
            )
        self._stack.push_async_callback(_end, started)
        return started

    def log(self, process: Started) -> str:
        return (self.folder / f"{process.name}.log").read_text()


async def _end(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()
    await process.wait()


async def run_cluster(
    machines: Machines, processes: list[Started], coordinator_name: str, token: str = TOKEN
) -> None:
    """Start all processes, run a job, and stop each by SIGTERM."""
    placed = [machines.placed(process, number) for number, process in enumerate(processes)]
    async with asyncio.timeout(PATIENCE_S):
        running = [await machines.start(process, coordinator_name) for process in placed]
        coordinator, *workers = running
        assert coordinator.stdout is not None
        for event in ("listening", "ready"):
            said = await coordinator.stdout.readline()
            assert said, machines.log(placed[0])
            assert json.loads(said)["event"] == event
        await _check_health(placed[0], machines)
        # The client shows a worker's certificate, which is accepted, too.
        tls = replace(placed[1].cluster.tls, coordinator_name=coordinator_name)
        client = CoordinatorClient(machines.address, token, ClusterConfig(tls=tls))
        job_id = await client.submit(Submission.of_graph(sums(1000)))
        [records] = (await client.follow(job_id, interval_ms=1_000)).collected.values()
        totals = {digit: sum(range(digit, 1000, 10)) for digit in range(10)}
        assert dict(sorted(records)) == totals
        told = await client.read("/api/v1/workers")
        at = {one["worker_id"]: one["address"].rpartition(":")[0] for one in told["workers"]}
        ids = [re.search(r"worker-id[= ](\S+)", " ".join(one.command)) for one in placed[1:]]
        assert at == {
            found[1]: machines.host(number) for number, found in enumerate(ids, 1) if found
        }
        for process, one in [*zip(workers, placed[1:], strict=True), (coordinator, placed[0])]:
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0, machines.log(one)
    for one in placed:
        assert token not in machines.log(one)


async def _check_health(coordinator: Started, machines: Machines) -> None:
    """Run the image's health check, with its own container's address replaced."""
    script = (DEPLOY / "container" / "healthcheck.py").read_text()
    for host, status in ((machines.host(0), 0), (machines.host(9), 1)):
        check = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            script.replace("127.0.0.1", host),
            env={"PATH": os.environ["PATH"], **_tls_variables(coordinator)},
            stderr=PIPE,
        )
        _, said = await check.communicate()
        assert check.returncode == status, said


def _tls_variables(coordinator: Started) -> dict[str, str]:
    tls = coordinator.cluster.tls
    if not tls.is_on:
        return {}
    # Without a certificate it would be accepted only if http_clients is "token".
    return {
        "FLINKNET_CLUSTER_TLS_CERTIFICATE": tls.certificate,
        "FLINKNET_CLUSTER_TLS_PRIVATE_KEY": tls.private_key,
    }


def made_secrets(folder: Path, worker_ids: tuple[str, ...]) -> Path:
    """Make a token and certificates of a coordinator and of workers, by number."""
    authority = Authority(folder / "certs")
    authority.issue("coordinator", "coordinator.example.org", "flinknet-coordinator")
    for number, name in enumerate(worker_ids, 1):
        authority.issue(name)
        for made in authority.files(name)[:2]:
            made.rename(authority.directory / f"worker-{number}{made.suffix}")
    token = authority.directory / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(0o600)
    return authority.directory


def secrets_of_the_readme(folder: Path) -> Path:
    """Make the secrets of compose with the commands in README.md."""
    text = (DEPLOY / "README.md").read_text()
    [commands] = re.findall(r"```\n(mkdir -m 0700 secrets\n.*?)```", text, re.DOTALL)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "PYTHONPATH": str(ROOT)}
    run("bash", "-ec", commands, cwd=folder, env=environment)
    return folder / "secrets"


async def test_the_processes_of_compose_run_a_job_over_tls(tmp_path: Path) -> None:
    secrets = await asyncio.to_thread(secrets_of_the_readme, tmp_path)
    token = (secrets / "token").read_text().strip()
    async with Machines(tmp_path, secrets) as machines:
        await run_cluster(machines, of_compose(), "coordinator", token)


async def test_the_processes_of_kubernetes_run_a_job(tmp_path: Path) -> None:
    secrets = made_secrets(tmp_path, ())
    async with Machines(tmp_path, secrets) as machines:
        await run_cluster(machines, of_kubernetes("token"), "")


async def test_the_units_of_systemd_run_a_job_over_tls(tmp_path: Path) -> None:
    secrets = made_secrets(tmp_path, ("worker-1", "worker-2"))
    async with Machines(tmp_path, secrets) as machines:
        await run_cluster(machines, of_systemd(tmp_path), "coordinator.example.org")


def test_the_build_stage_makes_a_wheel_of_the_copied_files(tmp_path: Path) -> None:
    """The image's wheel is plain Python, and no secret beside the sources is packed."""
    text = (DEPLOY / "container" / "Containerfile").read_text()
    [build] = re.findall(r" AS build\n(.*?)\nFROM ", text, re.DOTALL)
    source, wheels, site = tmp_path / "source", tmp_path / "wheels", tmp_path / "site"
    source.mkdir()
    left_out = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.token")
    for copied in re.findall(r"^COPY (.*)$", build, re.MULTILINE):
        *names, target = copied.split()
        for name in names:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, source / target, ignore=left_out)
            else:
                shutil.copy(ROOT / name, source / target)
    for secret in ("flinknet.token", "secrets/token"):
        (source / "deploy" / secret).parent.mkdir(exist_ok=True)
        (source / "deploy" / secret).write_text(TOKEN)
    [command] = re.findall(r"^RUN (python -m pip wheel .*)$", build, re.MULTILINE)
    here = {"python": sys.executable, "/wheels": str(wheels)}
    words = [here.get(word, word) for word in command.split()]
    environment = {**os.environ, "FLINKNET_PURE": "1"}
    run(*words, "--no-build-isolation", cwd=source, env=environment)
    [wheel] = wheels.glob("flinknet-*.whl")
    shutil.unpack_archive(wheel, site, "zip")
    packed = (site / "flinknet" / "deploy").rglob("*token")
    assert [path for path in packed if path.is_file()] == []
    assert (site / "flinknet" / "deploy" / "kubernetes" / "base" / "worker.yaml").is_file()
    program = "import flinknet.cluster.worker.worker as it; print(it.__file__)"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site)}
    said = run(sys.executable, "-P", "-c", program, cwd=tmp_path, env=environment)
    assert said.startswith(str(site))


def test_the_script_for_spark_says_how_it_is_called(tmp_path: Path) -> None:
    script = DEPLOY / "spark" / "submit.sh"
    environment = {"PATH": os.environ["PATH"], "FLINKNET": "echo", "WORKERS": "3"}
    said = run(script, "yarn", "a job.py", "--slots", "4", env=environment)
    assert said == "run a job.py --on spark --master yarn --workers 3 --slots 4\n"
    refused = subprocess.run([script, "yarn"], capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stderr[:6]) == (2, "usage:")
