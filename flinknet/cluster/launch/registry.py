"""The launchers by name, of this package and of other installed distributions.

``cluster.launcher`` names the launcher for a program's clusters. A distribution offers a launcher
by an entry point of the group ``flinknet.launchers``::

    [project.entry-points."flinknet.launchers"]
    mine = "my_package.launcher:MyLauncher"

Its code is imported only when a configuration names it. Names of this package cannot be overridden.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from flinknet.cluster.launch.protocol import MakeLauncher
from flinknet.cluster.launch.spark.session import is_used
from flinknet.config import ClusterConfig
from flinknet.errors import ConfigurationError

__all__ = ["LAUNCHERS", "launcher_named", "launcher_of"]

GROUP = "flinknet.launchers"

LAUNCHERS: Mapping[str, str] = {
    "local": "flinknet.cluster.launch.local.launcher:LocalLauncher",
    "spark": "flinknet.cluster.launch.spark.launcher:SparkLauncher",
}
"""The launchers of this package. A program that uses a running cluster imports neither."""


def launcher_of(cluster: ClusterConfig) -> MakeLauncher:
    """Return the factory of the launcher for a program's clusters.

    It is Spark's if the program has named a session (``flinknet.spark.use``), else the configured
    one.
    """
    return launcher_named("spark" if is_used() else cluster.launcher)


def launcher_named(name: str) -> MakeLauncher:
    """Return the factory of the launcher ``name``.

    Raises ConfigurationError if there is none, or if its code cannot be imported.
    """
    if name in LAUNCHERS:
        module, _, attribute = LAUNCHERS[name].partition(":")
        own: MakeLauncher = getattr(import_module(module), attribute)
        return own
    # Imported late, because the import takes some milliseconds, and "local" does not need it.
    from importlib.metadata import entry_points

    installed = entry_points(group=GROUP)
    if name not in installed.names:
        known = ", ".join(sorted({*LAUNCHERS, *installed.names}))
        raise ConfigurationError(
            f'cluster.launcher is "{name}", but there is no launcher of that name: choose one of '
            f"{known}, or install the package that has it (entry points of the group {GROUP})"
        )
    entry = installed[name]
    try:
        make: MakeLauncher = entry.load()
    except Exception as error:
        raise ConfigurationError(
            f'cluster.launcher is "{name}", but {entry.value} cannot be imported: '
            f"{type(error).__name__}: {error}"
        ) from error
    if not callable(make):
        raise ConfigurationError(
            f'cluster.launcher is "{name}", but {entry.value} is not a launcher: not callable'
        )
    return make
