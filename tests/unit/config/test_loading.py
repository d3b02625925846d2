"""The configuration loader, and the example file that ships with it."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flinknet.config import FlinknetConfig
from flinknet.config.loading import Option, Origin, load_settings, options, with_flink_options
from flinknet.errors import ConfigurationError

EXAMPLE = Path(__file__).parents[3] / "deploy" / "cluster.toml"
SECURITY = Path(__file__).parents[3] / "SECURITY.md"


@pytest.fixture
def cluster_toml(tmp_path: Path) -> Path:
    return tmp_path / "cluster.toml"


def refused(path: Path | None = None, **environ: str) -> str:
    with pytest.raises(ConfigurationError) as raised:
        load_settings(path, environ, {})
    return str(raised.value)


# -- sources and their order


def test_nothing_given_means_the_defaults() -> None:
    settings = load_settings(None, {}, {})
    assert settings.config == FlinknetConfig()
    assert set(settings.origins) == set(options())
    assert set(settings.origins.values()) == {Origin("default")}


def test_each_source_overrides_the_ones_before_it(cluster_toml: Path) -> None:
    cluster_toml.write_text("[cluster]\nworkers = 3\nslots_per_worker = 3\ndata_port = 3\n")
    environ = {"FLINKNET_CLUSTER_SLOTS_PER_WORKER": "4", "FLINKNET_CLUSTER_DATA_PORT": "4"}
    settings = load_settings(cluster_toml, environ, {"cluster.data_port": 5})

    cluster = settings.config.cluster
    assert (cluster.workers, cluster.slots_per_worker, cluster.data_port) == (3, 4, 5)
    assert settings.origins["cluster.host"] == Origin("default")
    assert settings.origins["cluster.workers"] == Origin("file", str(cluster_toml))
    assert settings.origins["cluster.slots_per_worker"] == Origin(
        "environment", "FLINKNET_CLUSTER_SLOTS_PER_WORKER"
    )
    assert settings.origins["cluster.data_port"] == Origin("flag")
    assert settings.value("cluster.data_port") == 5


def test_a_variable_names_the_file_unless_there_is_one(cluster_toml: Path) -> None:
    cluster_toml.write_text("[cluster]\nworkers = 3\n")
    named = {"FLINKNET_CONFIG": str(cluster_toml)}
    assert load_settings(None, named, {}).config.cluster.workers == 3
    assert load_settings(None, named, {}).origins["cluster.workers"].kind == "file"
    assert load_settings(None, {"FLINKNET_CONFIG": ""}, {}).config == FlinknetConfig()
    other = cluster_toml.with_name("other.toml")
    other.write_text("[cluster]\nworkers = 4\n")
    assert load_settings(other, named, {}).config.cluster.workers == 4
    assert "missing.toml" in refused(FLINKNET_CONFIG=str(cluster_toml.with_name("missing.toml")))


def test_a_flag_that_was_not_given_overrides_nothing() -> None:
    settings = load_settings(None, {"FLINKNET_CLUSTER_WORKERS": "7"}, {"cluster.workers": None})
    assert settings.config.cluster.workers == 7
    assert settings.origins["cluster.workers"].kind == "environment"


def test_sections_nest(cluster_toml: Path) -> None:
    cluster_toml.write_text("[network.wire]\npending_handshakes_max = 9\n")
    environ = {"FLINKNET_NETWORK_WIRE_HANDSHAKE_BYTES_MAX": "1KiB"}
    wire = load_settings(cluster_toml, environ, {}).config.network.wire
    assert (wire.pending_handshakes_max, wire.handshake_bytes_max) == (9, 1024)


def test_other_variables_are_left_alone() -> None:
    environ = {
        "PATH": "/bin",
        "FLINKNET_CLUSTER_TOKEN": "secret",
        "FLINKNET_TRACEBACK": "1",
        "flinknet_cluster_workers": "9",
    }
    assert load_settings(None, environ, {}).config == FlinknetConfig()


def test_no_two_options_share_a_variable() -> None:
    variables = [option.variable for option in options().values()]
    assert len(set(variables)) == len(variables)


# -- forms of values


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("network.segment_bytes", 65536, 65536),
        ("network.segment_bytes", "65536", 65536),
        ("network.segment_bytes", "64KiB", 65536),
        ("network.segment_bytes", "0.5 mib", 524288),
        ("network.segment_bytes", "128B", 128),
        ("network.network_memory_bytes", "1GiB", 2**30),
        ("network.record_bytes_max", "3MiB", 3 * 2**20),
        ("network.connect_timeout_ms", 250, 250.0),
        ("network.connect_timeout_ms", 0.25, 0.25),
        ("network.connect_timeout_ms", "250", 250.0),
        ("network.connect_timeout_ms", "250us", 0.25),
        ("network.connect_timeout_ms", "100ms", 100.0),
        ("network.connect_timeout_ms", "1.5s", 1500.0),
        ("network.connect_timeout_ms", "2min", 120_000.0),
        ("network.connect_timeout_ms", "1h", 3_600_000.0),
        ("network.connect_timeout_ms", "1e-07", 1e-07),
        ("network.connect_timeout_ms", "2.5E3", 2500.0),
        ("network.connect_timeout_ms", "1e2s", 100_000.0),
        ("network.buffer_timeout_ms", "adaptive", "adaptive"),
        ("network.buffer_timeout_ms", -1, -1.0),
        ("network.buffer_timeout_ms", "-1", -1.0),
        ("network.buffer_timeout_ms", "0", 0.0),
        ("network.buffer_timeout_ms", "100ms", 100.0),
        ("network.buffers_per_channel", "0", 0),
        ("cluster.event_loop", "asyncio", "asyncio"),
        ("cluster.host", "0.0.0.0", "0.0.0.0"),
    ],
)
def test_a_value_may_be_written_in_these_forms(name: str, written: object, value: object) -> None:
    effective = load_settings(None, {}, {name: written}).value(name)
    assert effective == value
    assert type(effective) is type(value)


@pytest.mark.parametrize(
    ("name", "written", "accepted"),
    [
        ("network.segment_bytes", "32KB", '"32KiB"'),  # 32,000 to some, 32,768 to Flink
        ("network.segment_bytes", "10s", '"32KiB"'),
        ("network.segment_bytes", "0.3B", '"32KiB"'),
        ("network.segment_bytes", 1024.5, '"32KiB"'),
        ("network.segment_bytes", True, '"32KiB"'),
        ("network.segment_bytes", {"a": 1}, '"32KiB"'),
        ("network.segment_bytes", "9" * 10_000, '"32KiB"'),
        ("network.connect_timeout_ms", "", '"100ms"'),
        ("network.connect_timeout_ms", "soon", '"100ms"'),
        ("network.connect_timeout_ms", "32KiB", '"100ms"'),
        ("network.connect_timeout_ms", float("inf"), '"100ms"'),
        ("network.connect_timeout_ms", float("nan"), '"100ms"'),
        ("network.connect_timeout_ms", 10**400, '"100ms"'),
        ("network.connect_timeout_ms", "1e400", '"100ms"'),
        ("network.connect_timeout_ms", "1e", '"100ms"'),
        ("network.buffer_timeout_ms", "adaptative", '"adaptive"'),
        ("network.buffer_timeout_ms", [1], '"2min"'),
        ("network.turn_messages_max", "3s", "a whole number"),
        ("network.turn_messages_max", "three", "a whole number"),
        ("cluster.event_loop", "trio", '"uvloop" or "asyncio"'),
        ("cluster.host", 127, "a text"),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, written: object, accepted: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        load_settings(None, {}, {name: written})
    message = str(raised.value)
    assert message.startswith(f"{name} is {repr(written)[:5]}")
    assert "(flag)" in message
    assert accepted in message
    assert len(message) < 300


@given(st.sampled_from(["network.segment_bytes", "cluster.workers"]), st.integers(0, 2**63 - 1))
def test_a_rendered_whole_number_reads_back(name: str, value: int) -> None:
    option = options()[name]
    assert option.parse(option.render(value)) == value


@given(st.floats(-1, 1e11, allow_nan=False))
@example(0.00012345678901234567)
@example(1e-07)
@example(5e-324)
def test_a_rendered_duration_reads_back(value: float) -> None:
    """This holds for every option, as the launcher passes its configuration to workers as text."""
    option = options()["network.connect_timeout_ms"]
    assert option.parse(option.render(value)) == value


@pytest.mark.parametrize(
    ("name", "value", "rendered"),
    [
        ("network.segment_bytes", 32768, "32KiB"),
        ("network.segment_bytes", 1000, "1000B"),
        ("network.connect_timeout_ms", 90_000.0, "90s"),
        ("network.connect_timeout_ms", 120_000.0, "2min"),
        ("network.connect_timeout_ms", 0.5, "500us"),
        ("network.buffer_timeout_ms", -1.0, "-1.0"),
        ("network.buffer_timeout_ms", "adaptive", "adaptive"),
        ("cluster.workers", 2, "2"),
    ],
)
def test_a_value_is_rendered_for_people(name: str, value: object, rendered: str) -> None:
    assert options()[name].render(value) == rendered


def test_truth_is_written_as_in_toml() -> None:
    option = Option("network.any", bool, default=False)
    assert [option.parse(written) for written in (True, "true", "false")] == [True, True, False]
    assert option.render(value=True) == "true"
    for written in (1, "yes", "True", None):
        with pytest.raises(ValueError, match="true or false"):
            option.parse(written)


def test_a_duration_in_seconds_takes_the_same_units() -> None:
    option = Option("network.any_s_max", float, default=1.0)
    assert [option.parse(written) for written in (2, "2", "100ms", "1min")] == [2.0, 2.0, 0.1, 60.0]


def test_a_field_of_a_type_that_has_no_form_is_a_mistake_in_the_configuration() -> None:
    option = Option("network.any", bytes, default=b"")
    with pytest.raises(AssertionError, match="no rule for a field of type"):
        option.parse("raw")


# -- refusals


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[netwrk]\nsegment_bytes = 1", "unknown section [netwrk] in {}: did you mean network?"),
        ("[network.wires]\n", "unknown section [network.wires] in {}: did you mean network.wire?"),
        (
            "[network]\nsegments_bytes = 1",
            "unknown key network.segments_bytes in {}: did you mean network.segment_bytes?",
        ),
        ("workers = 2", "unknown key workers in {}: did you mean cluster.workers?"),
        ("zzz = 2", "unknown key zzz in {}: `flinknet config show` lists all options"),
        ("cluster = 2", "cluster in {} is a section: put its keys under [cluster]"),
        (
            "[network]\nwire = 2",
            "network.wire in {} is a section: put its keys under [network.wire]",
        ),
        (
            "[cluster]\nworkers = 'two'",
            "cluster.workers is 'two' (file {}): write a whole number",
        ),
    ],
)
def test_a_file_is_refused_with_what_to_do(cluster_toml: Path, text: str, message: str) -> None:
    cluster_toml.write_text(text)
    assert refused(cluster_toml) == message.format(cluster_toml)


def test_an_unknown_variable_is_refused_with_the_nearest() -> None:
    assert refused(FLINKNET_CLUSTER_WORKER="2") == (
        "unknown variable FLINKNET_CLUSTER_WORKER in the environment: "
        "did you mean FLINKNET_CLUSTER_WORKERS?"
    )


def test_an_unknown_flag_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown key cluster\.worker in a flag: did you"):
        load_settings(None, {}, {"cluster.worker": 1})


def test_a_refused_value_names_its_option_and_origin() -> None:
    message = refused(FLINKNET_CLUSTER_WORKERS="-1")
    assert message.startswith("workers is -1: ")
    assert message.endswith("(cluster.workers: environment FLINKNET_CLUSTER_WORKERS)")


def test_two_values_that_do_not_fit_name_both_origins(cluster_toml: Path) -> None:
    cluster_toml.write_text("[network]\nsegment_bytes = '64KiB'\nturn_messages_max = 1\n")
    message = refused(cluster_toml, FLINKNET_NETWORK_NETWORK_MEMORY_BYTES="32KiB")
    assert (
        "network.network_memory_bytes: environment FLINKNET_NETWORK_NETWORK_MEMORY_BYTES" in message
    )
    assert f"network.segment_bytes: file {cluster_toml}" in message
    assert "turn_messages_max" not in message


def test_a_nested_value_is_refused_with_its_full_name() -> None:
    message = refused(FLINKNET_NETWORK_WIRE_HANDSHAKE_BYTES_MAX="1B")
    assert "(network.wire.handshake_bytes_max: environment " in message


@pytest.mark.parametrize(
    "content", [b"[network", b"\xff\xfe", b"a = 1\na = 2", b"[a]\nb = " + b"9" * 5000]
)
def test_a_file_that_is_not_toml_is_refused(cluster_toml: Path, content: bytes) -> None:
    cluster_toml.write_bytes(content)
    assert refused(cluster_toml).startswith(
        f"configuration file {cluster_toml} is not valid TOML: "
    )


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.toml") == (
        f"cannot read the configuration file {tmp_path / 'none.toml'}: No such file or directory"
    )
    assert "Is a directory" in refused(tmp_path)


# -- Flink's names


@pytest.mark.parametrize(
    ("key", "text", "name", "value"),
    [
        ("taskmanager.memory.segment-size", "32kb", "segment_bytes", 32_768),
        ("taskmanager.memory.segment-size", " 128 KB ", "segment_bytes", 131_072),
        ("taskmanager.memory.network.min", "128m", "network_memory_bytes", 134_217_728),
        ("taskmanager.network.credit-model", "true", "flow_control", "credit"),
        ("taskmanager.network.netty.client.connectTimeoutSec", "2", "connect_timeout_ms", 2_000),
        ("taskmanager.network.memory.buffers-request-timeout", "1 min", None, 60_000),
    ],
)
def test_values_are_read_as_flink_reads_them(
    key: str, text: str, name: str | None, value: object
) -> None:
    config = with_flink_options(FlinknetConfig(), {key: text})
    assert getattr(config.network, name or "buffers_request_timeout_ms") == value


def test_a_file_may_name_options_as_flink_does(cluster_toml: Path) -> None:
    cluster_toml.write_text(
        "taskmanager.memory.segment-size = '64kb'\n"
        "taskmanager.network.memory.buffer-debloat.enabled = true\n"
        "'taskmanager.numberOfTaskSlots' = 5\n"
        "execution.buffer-timeout.interval = '10 ms'\n"
        "metrics.latency.interval = '5 s'\n"
        "taskmanager.memory.process.size = '1gb'\n"
        "cluster.workers = 3\n"
    )
    with pytest.warns(UserWarning, match="taskmanager.memory.process.size has no effect here"):
        settings = load_settings(cluster_toml, {}, {})
    network = settings.config.network
    assert (network.segment_bytes, network.debloat.enabled) == (65_536, True)
    assert network.buffer_timeout_ms == 10
    assert settings.config.cluster.slots_per_worker == 5
    assert settings.config.cluster.workers == 3
    assert settings.config.metrics.latency_interval_ms == 5_000
    origin = settings.origins["network.segment_bytes"]
    assert str(origin) == f"file {cluster_toml}, taskmanager.memory.segment-size"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("taskmanager.memory.segment-size = 'big'", "is 'big': choose a size"),
        ("taskmanager.memory.segment-size = true", "is 'true': choose a size"),
        ("taskmanager.memory.segmnt-size = '32kb'", "unknown section [taskmanager]"),
        ("network.segment-size = '32kb'", "unknown key network.segment-size"),
        ("cluster.worker = 2", "did you mean cluster.workers"),
    ],
)
def test_an_option_of_flinks_that_a_file_cannot_set_is_refused(
    cluster_toml: Path, line: str, message: str
) -> None:
    cluster_toml.write_text(line)
    assert message in refused(cluster_toml)


@pytest.mark.parametrize("key", ["parallelism.default", "execution.checkpointing.interval"])
def test_an_option_of_a_job_says_that_the_program_sets_it(cluster_toml: Path, key: str) -> None:
    cluster_toml.write_text(f"{key} = 2")
    with pytest.warns(UserWarning, match=f"the option {key} in .* set it in the program"):
        assert load_settings(cluster_toml, {}, {}).config == FlinknetConfig()


def test_a_program_may_set_options_by_the_names_of_flink() -> None:
    """All other options keep their configured values.

    Without such an option the configuration is the same object.
    """
    config = load_settings(None, {"FLINKNET_CLUSTER_WORKERS": "3"}, {}).config
    assert with_flink_options(config, {}) is config
    changed = with_flink_options(config, {"state.backend": "rocksdb", "rest.port": "8081"})
    assert (changed.state.backend, changed.cluster.coordinator_port) == ("rocksdb", 8081)
    assert (changed.cluster.workers, changed.network) == (3, config.network)


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ({"state.backend": "redis"}, ["state.backend is 'redis': write \"hashmap\" or "]),
        ({"rest.port": "any"}, ["rest.port is 'any': choose a whole number"]),
        (
            {"taskmanager.memory.segment-size": "64kb", "taskmanager.memory.network.min": "32kb"},
            [
                "raise network_memory_bytes or lower segment_bytes",
                "network.network_memory_bytes: option taskmanager.memory.network.min",
                "network.segment_bytes: option taskmanager.memory.segment-size",
            ],
        ),
    ],
)
def test_a_wrong_option_of_a_program_is_refused_by_the_name_it_was_given(
    written: dict[str, str], parts: list[str]
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        with_flink_options(FlinknetConfig(), written)
    assert [part for part in parts if part not in str(raised.value)] == []


# -- deploy/cluster.toml


def test_the_example_holds_every_option_at_its_default() -> None:
    settings = load_settings(EXAMPLE, {}, {})
    assert settings.config == FlinknetConfig()
    missing = [name for name, origin in settings.origins.items() if origin.kind == "default"]
    assert missing == []


def test_the_example_explains_every_option_and_says_its_default() -> None:
    """The comment of a key ends with "Default: VALUE", and the key has this value."""
    lines = EXAMPLE.read_text().splitlines()
    keys = [index for index, line in enumerate(lines) if re.match(r"\w+ = ", line)]
    assert len(keys) == len(options())
    for index in keys:
        key, _, written = lines[index].partition(" = ")
        default = re.search(r"Default: (\S+?)[.,](\s|$)", lines[index - 1])
        assert default is not None, f"no default above {key}"
        assert default[1].strip('"') == written.strip('"').replace("_", ""), key


def test_sections_of_the_example_are_those_of_the_configuration() -> None:
    sections = re.findall(r"^\[(\w+)\]", EXAMPLE.read_text(), flags=re.MULTILINE)
    assert sections == [field.name for field in fields(FlinknetConfig)]


# -- SECURITY.md


def test_the_limits_of_the_security_page_are_those_of_the_configuration() -> None:
    """A row has as many numbers as options, in the same order; "15 s each" counts once."""
    text = SECURITY.read_text()
    rows = re.findall(r"^\|[^|]+\|([^|]+)\|((?: *`[a-z_.]+`,?)+) *\|$", text, re.MULTILINE)
    assert len(rows) > 15
    for values, names in rows:
        written = re.findall(r"[0-9][0-9,]*(?: (?:B|KiB|MiB|s)\b)?", values)
        named = re.findall(r"`([a-z_.]+)`", names)
        assert len(written) == len(named), values
        for value, name in zip(written, named, strict=True):
            option = options()[name]
            assert option.parse(value.replace(",", "")) == option.default, name


def test_options_that_the_security_page_names_are_there() -> None:
    named = re.findall(r"`((?:cluster|network)\.[a-z_.]+)`", SECURITY.read_text())
    sections = {"cluster.tls"}
    assert [name for name in named if name not in options() and name not in sections] == []
