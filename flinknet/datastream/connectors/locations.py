"""Locations of files: a path of this machine, or a URL that fsspec supports.

URLs such as ``s3://bucket/in`` need ``flinknet[fsspec]`` and the packages that fsspec requires for
their kind. fsspec finds credentials, regions and endpoints: in its configuration files, in
``FSSPEC_...`` variables of the environment, or where the store's own library looks for them. Each
worker resolves them itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from flinknet.config.local_path import local_path
from flinknet.errors import ConfigurationError

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

__all__ = ["Location", "RemoteLocation", "location_of"]


@dataclass(frozen=True, slots=True, order=True)
class RemoteLocation:
    """A URL of a file, or of a store's equivalent of a directory; can be pickled."""

    url: str

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> RemoteLocation:
        return RemoteLocation(f"{self.url}/{name}")

    @property
    def name(self) -> str:
        """The part after the last ``/``."""
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> RemoteLocation:
        """The location without its last part."""
        return RemoteLocation(self.url.rpartition("/")[0])

    @property
    def path(self) -> str:
        """The path in the location's file system."""
        return cast(str, self.filesystem()._strip_protocol(self.url))

    def open(self) -> BinaryIO:
        """Open the file for reading."""
        return cast(BinaryIO, self.filesystem().open(self.path, "rb"))

    def filesystem(self) -> AbstractFileSystem:
        """Return fsspec's file system, shared by all locations that it serves.

        Raises ConfigurationError if there is none.
        """
        try:
            import fsspec
        except ImportError as cause:
            raise ConfigurationError(
                f"{self.url} is not a local path: install flinknet[fsspec] to read and write URLs, "
                "or name a path"
            ) from cause
        try:
            return fsspec.core.url_to_fs(self.url)[0]
        except (ImportError, ValueError) as cause:
            raise ConfigurationError(f"{self.url} cannot be used: {cause}") from cause


Location = Path | RemoteLocation


def location_of(path: str | Path) -> Location:
    """Return the location of a path; a ``file://`` URL is a path of this machine."""
    local = path if isinstance(path, Path) else local_path(path)
    return RemoteLocation(str(path).rstrip("/")) if local is None else local
