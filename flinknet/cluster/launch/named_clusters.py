"""Clusters by name: the entries of a user's file, and the clusters that run on this machine.

``$XDG_CONFIG_HOME/flinknet/clusters.toml``, or the file that FLINKNET_CLUSTERS names::

    [clusters.production]
    coordinator = "flink.example.org:8081"
    token_file = "/home/me/.secrets/flinknet"
    config = "/home/me/flinknet.toml"          # optional: how to reach it

A cluster started by ``flinknet cluster start NAME`` needs no entry. A name with a colon is an
address, HOST:PORT. The token of such a cluster comes from FLINKNET_CLUSTER_TOKEN, or from the file
of ``cluster.token_file``.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flinknet.cluster.control.credentials import checked_token, take_token, token_in_file
from flinknet.cluster.launch.cluster_directory import ClusterDirectory
from flinknet.config import FlinknetConfig
from flinknet.config.loading import CLUSTERS_VARIABLE, load_settings
from flinknet.errors import ConfigurationError

__all__ = ["NamedCluster", "named_cluster"]

_KEYS = ("coordinator", "token_file", "config")


@dataclass(frozen=True, slots=True)
class NamedCluster:
    """The address of a cluster, and the settings of a client for it."""

    name: str
    address: str
    token: str = field(repr=False)
    config: FlinknetConfig
    directory: ClusterDirectory | None = None
    """The directory of a cluster on this machine, which tells whether the cluster lives."""

    @property
    def is_gone(self) -> bool:
        """Whether the cluster is known to have been stopped or to have died."""
        return self.directory is not None and not self.directory.is_locked()


def named_cluster(
    name: str, config: Path | None = None, environ: Mapping[str, str] = os.environ
) -> NamedCluster:
    """Return the cluster with that name or address; ConfigurationError explains its absence.

    ``config`` is a configuration file that takes precedence over the entry's.
    """
    if ":" in name:
        loaded = _config(config, "", environ)
        return NamedCluster(name, _address(name), take_token(loaded.cluster.token_file), loaded)
    entries = _entries(environ)
    if name in entries:
        return _of_entry(name, entries[name], config, environ)
    directory = ClusterDirectory(name, environ)
    running = directory.running()
    if running is None or not directory.is_locked():
        raise ConfigurationError(_absence(directory, entries, has_died=running is not None))
    loaded = _config(config, running.config, environ)
    token = checked_token(directory.token())
    return NamedCluster(name, running.address, token, loaded, directory)


def _of_entry(
    name: str, entry: Mapping[str, Any], config: Path | None, environ: Mapping[str, str]
) -> NamedCluster:
    token = token_in_file(str(Path(entry["token_file"]).expanduser()))
    loaded = _config(config, entry.get("config", ""), environ)
    return NamedCluster(name, _address(entry["coordinator"]), token, loaded)


def _config(path: Path | None, default: str, environ: Mapping[str, str]) -> FlinknetConfig:
    if path is None and default:
        path = Path(default).expanduser()
    return load_settings(path, environ, {}).config


def _file(environ: Mapping[str, str]) -> Path:
    if environ.get(CLUSTERS_VARIABLE):
        return Path(environ[CLUSTERS_VARIABLE])
    home = environ.get("XDG_CONFIG_HOME") or Path(environ.get("HOME", "~")) / ".config"
    return Path(home).expanduser() / "flinknet" / "clusters.toml"


def _entries(environ: Mapping[str, str]) -> Mapping[str, Mapping[str, Any]]:
    path = _file(environ)
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if environ.get(CLUSTERS_VARIABLE):
            raise ConfigurationError(
                f"there is no file {path}, which {CLUSTERS_VARIABLE} names"
            ) from None
        return {}
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    entries = table.pop("clusters", {})
    if table or not isinstance(entries, dict):
        raise ConfigurationError(f"{path} has entries beside the tables [clusters.NAME]")
    for name, entry in entries.items():
        _check_entry(path, name, entry)
    return entries


def _check_entry(path: Path, name: str, entry: Any) -> None:
    where = f"[clusters.{name}] in {path}"
    if not isinstance(entry, dict):
        raise ConfigurationError(f"{where} is not a table")
    for key, value in entry.items():
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f": did you mean {near[0]}?" if near else f": it may have {', '.join(_KEYS)}"
            raise ConfigurationError(f"unknown key {key} of {where}{hint}")
        if not isinstance(value, str):
            raise ConfigurationError(f"{key} of {where} is {value!r}: write a string")
    for key in ("coordinator", "token_file"):
        if key not in entry:
            raise ConfigurationError(f"{where} lacks {key}")


def _address(written: str) -> str:
    host, _, port = written.rpartition(":")
    if not host or not (port.isdecimal() and 0 < int(port) <= 65535):
        raise ConfigurationError(
            f"{written!r} is not the address of a coordinator: write HOST:PORT"
        )
    return written


def _absence(directory: ClusterDirectory, entries: Mapping[str, object], *, has_died: bool) -> str:
    name = directory.name
    if has_died:
        return f"cluster {name} has died: `flinknet cluster status {name}` shows why"
    known = ", ".join(sorted(entries))
    others = f"; it has {known}" if known else ""
    return (
        f"there is no cluster {name}: `flinknet cluster start {name}` has started none on this "
        f"machine, and the file of clusters has no [clusters.{name}]{others}"
    )
