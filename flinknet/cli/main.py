"""The command line: ``flinknet``.

Each command has its own module. The group registers it by name and imports it only when the command
is called (``lazy_group.py``).
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NoReturn

import typer

import flinknet
from flinknet.cli.checkpoints import checkpoints_app
from flinknet.cli.config import config_app
from flinknet.cli.lazy_group import LazyGroup, add_command
from flinknet.compiled_modules import IMPLEMENTATION, INTERPRETER, REASON
from flinknet.errors import FlinknetError, JobError
from flinknet.texts import printable, traceback_of

__all__ = ["app", "main"]

_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS)

app = typer.Typer(
    cls=LazyGroup,
    help="flinknet: a data-exchange runtime for asyncio.",
    epilog="--install-completion installs completion for your shell: bash, zsh or fish.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain text wraps lines, while the boxes of Rich would cut them off.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(config_app, name="config")
app.add_typer(checkpoints_app, name="checkpoints")
cluster_app = typer.Typer(
    cls=LazyGroup,
    help="Start, inspect and stop a cluster that stays on this machine.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(cluster_app, name="cluster")


@dataclass(slots=True)
class Invocation:
    """Options of the root command that apply to every command; available as ``context.obj``."""

    verbose: bool = False


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 success, 1 a job failed, 2 refused or misused, 130 Ctrl-C.

    An error that flinknet raises on purpose, or a file that this user may not write, becomes one
    line on standard error. ``--verbose`` or FLINKNET_TRACEBACK=1 adds the traceback. Any other
    exception is a bug and propagates.
    """
    invocation = Invocation(verbose=os.environ.get("FLINKNET_TRACEBACK", "0") not in ("", "0"))
    try:
        app(args=arguments, prog_name="flinknet", obj=invocation)
    except FlinknetError as error:
        if invocation.verbose:
            print(traceback_of(error), end="", file=sys.stderr)
        print(printable(f"flinknet: {error}"), file=sys.stderr)
        sys.exit(1 if isinstance(error, JobError) else 2)
    except OSError as error:
        if invocation.verbose or error.filename is None or error.errno not in _NOT_WRITABLE:
            raise
        print(printable(f"flinknet: {error.strerror}: {error.filename}"), file=sys.stderr)
        if "--install-completion" in (sys.argv if arguments is None else arguments):
            print("--show-completion prints the script to add there.", file=sys.stderr)
        sys.exit(2)
    sys.exit(0)


def _print_version(requested: bool) -> None:
    if requested:
        because = f": {REASON}" if REASON else ""
        print(f"flinknet {flinknet.__version__} ({IMPLEMENTATION}, {INTERPRETER}{because})")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show tracebacks of errors.")] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    invocation = context.ensure_object(Invocation)
    invocation.verbose = invocation.verbose or verbose


_RUN = "Run a job file on a cluster of its own, or on a running one."
_EXPLAIN = "Show whether a job fits, and its memory use."

add_command(app, "run", "flinknet.cli.run", _RUN, passes_options_on=True)
add_command(cluster_app, "start", "flinknet.cli.cluster", "Start a cluster that stays.")
add_command(cluster_app, "status", "flinknet.cli.cluster", "Show a cluster, or why it died.")
add_command(cluster_app, "stop", "flinknet.cli.cluster", "Stop a cluster and its processes.")
add_command(app, "worker", "flinknet.cli.worker", "Run a worker that joins a coordinator.")
add_command(app, "jobs", "flinknet.cli.jobs", "List the jobs of a cluster.")
add_command(app, "job", "flinknet.cli.job", "Show the work of each operator of a job.")
add_command(app, "metrics", "flinknet.cli.metrics", "Show the metrics of a job.")
add_command(app, "diagnose", "flinknet.cli.diagnose", "Show what holds a job up, and why.")
add_command(app, "top", "flinknet.cli.top", "Watch a cluster, or one job of it.")
add_command(app, "savepoint", "flinknet.cli.savepoint", "Write a savepoint of a running job.")
add_command(app, "stop", "flinknet.cli.stop", "End a running job with a savepoint.")
add_command(app, "cancel", "flinknet.cli.cancel", "Cancel a running job.")
add_command(app, "explain", "flinknet.cli.explain", _EXPLAIN, passes_options_on=True)
add_command(app, "token", "flinknet.cli.token", "Make a token for a role.")
add_command(
    app, "certs", "flinknet.cli.certs", "Make and renew the certificates of a cluster.", extra="tls"
)
add_command(
    app,
    "demo",
    "flinknet.cli.demo",
    "Exchange flights, and check them with Spark.",
    extra="spark",
)
