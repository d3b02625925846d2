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
            help="new: a cluster token, made up. read: to look. operate: to cancel, stop and save "
            "jobs, too. submit: to run jobs, too."
        ),
    ],
    *,
    config: ConfigFile = None,
) -> None:
    """Print a token: for a new cluster, or for one role in a cluster.

    That of a role is made of the cluster token, FLINKNET_CLUSTER_TOKEN or cluster.token_file, and
    taken by the whole cluster. Write it into a file that its user alone may read.
    """
    if role is _Wanted.new:
        print(new_token())
        return
    cluster = load_settings(config, os.environ, {}).config.cluster
    print(role_token(take_token(cluster.token_file), Role[role.name.upper()]))
