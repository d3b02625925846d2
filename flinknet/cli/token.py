"""``flinknet token``: derive a token for a role from the cluster token."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated

import typer

from flinknet.cli.arguments import ConfigFile
from flinknet.cluster.control.credentials import Role, new_token, role_token, take_token
from flinknet.config.loading import load_settings

__all__ = ["token"]


class _Wanted(StrEnum):
    new = "new"
    read = "read"
    operate = "operate"
    submit = "submit"


def token(
    role: Annotated[
        _Wanted,
        typer.Argument(
            help="new: a new cluster token. read: may read. operate: may also cancel, stop and "
            "save jobs. submit: may also run jobs."
        ),
    ],
    *,
    config: ConfigFile = None,
) -> None:
    """Print a token for a new cluster, or for one role in a cluster.

    The token of a role is derived from the cluster token in FLINKNET_CLUSTER_TOKEN or
    cluster.token_file, and every process of the cluster accepts it. Write it into a file that only
    its user may read.
    """
    if role is _Wanted.new:
        print(new_token())
        return
    cluster = load_settings(config, os.environ, {}).config.cluster
    print(role_token(take_token(cluster.token_file), Role[role.name.upper()]))
