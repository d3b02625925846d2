"""Output of file sinks in a store that fsspec supports: whole objects, uploaded when complete.

A subtask writes its file on its own machine, in a temporary directory, and uploads it as a whole
under a name that readers ignore. The commit renames it to its final name. In stores without rename,
such as S3, this is a copy within the store and a removal. An object is present as a whole or not at
all, and the next call on any machine completes an interrupted commit.

Differences to local directories:

- ``RemoteParts`` (with checkpoints): none. Each object appears once, with its checkpoint.
- ``RemoteDirectory`` (without): the objects of a result appear one after the other, then a manifest
  (``_flinknet.json``) with their names. After that, the objects of the previous result are removed.
  Readers that list the prefix meanwhile find both results; readers that follow the manifest find
  one or the other. A job that fails before its commit changes nothing. There is no lock: if two
  jobs write to one output at the same time, the second commit may remove the objects of the first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flinknet.config.locked_directory import LockedDirectory, remove_leftovers
from flinknet.config.temporary_directory import temporary_directory
from flinknet.datastream.connectors.committed_parts import WITHDRAWN, check_may_add, is_behind
from flinknet.datastream.connectors.locations import RemoteLocation
from flinknet.datastream.connectors.output_directory import MANIFEST
from flinknet.datastream.connectors.part_names import HIDDEN, PartNames, PreparedPart
from flinknet.errors import ConfigurationError, JobFailedError
from flinknet.state.state_handler import RestoredCheckpoint

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

__all__ = ["RemoteDirectory", "RemoteParts"]

log = logging.getLogger("flinknet.worker")

_SCRATCH = "flinknet-output-"
"""Prefix of the directories with files to upload."""


class RemoteFolder:
    """A folder of a store, and the files that this process uploads to it."""

    def __init__(self, location: RemoteLocation) -> None:
        self._location = location
        self._scratch: LockedDirectory | None = None

    def writable(self, name: str) -> Path:
        """Return the file's path on this machine, until it is uploaded."""
        if self._scratch is None:
            base = Path(temporary_directory())
            remove_leftovers(_SCRATCH, base)
            self._scratch = LockedDirectory(_SCRATCH, base)
        return self._scratch.path / name

    def close(self) -> None:
        """Remove the files that were not uploaded."""
        if self._scratch is not None:
            self._scratch.close()

    @property
    def _filesystem(self) -> AbstractFileSystem:
        return self._location.filesystem()

    def _send(self, name: str, target: RemoteLocation) -> None:
        written = self.writable(name)
        # A missing file was uploaded by an earlier call.
        if written.exists():
            self._filesystem.makedirs(target.parent.path, exist_ok=True)
            self._filesystem.put_file(str(written), target.path)
            written.unlink()

    def _has_moved(self, source: RemoteLocation, target: RemoteLocation) -> bool:
        """Return whether a missing object already has its other name."""
        has_moved: bool = self._filesystem.exists(target.path)
        return has_moved

    def _move(self, source: RemoteLocation, target: RemoteLocation) -> None:
        """Rename an object, unless that is already done.

        Raises JobFailedError if the object exists under neither name.
        """
        filesystem = self._filesystem
        # fsspec caches listings, and other processes change the store.
        filesystem.invalidate_cache()
        try:
            filesystem.makedirs(target.parent.path, exist_ok=True)
            filesystem.mv(source.path, target.path)
        except FileNotFoundError:
            # An earlier call that was interrupted may have moved it.
            if not self._has_moved(source, target):
                raise JobFailedError(
                    f"{source} was removed before its commit: only one job at a time may write "
                    "there, and no other program may remove it"
                ) from None

    def _names_in(self, location: RemoteLocation) -> list[str]:
        """Return the names in a folder; empty if it is missing.

        Raises ConfigurationError if it is a file.
        """
        filesystem, path = self._filesystem, location.path
        filesystem.invalidate_cache()
        try:
            entries = filesystem.ls(path, detail=False)
        except (FileNotFoundError, NotADirectoryError):
            return []
        if filesystem.isfile(path):
            raise ConfigurationError(f"{location} is a file: choose a directory for the output")
        names = (str(entry).rstrip("/") for entry in entries)
        return [name.rpartition("/")[2] for name in names if name != path.rstrip("/")]


class RemoteParts(RemoteFolder):
    """The counterpart of ``PartFiles`` for a store."""

    def __init__(
        self, location: RemoteLocation, job_id: str, attempt: int, names: PartNames
    ) -> None:
        super().__init__(location)
        self._job_id = job_id
        self._attempt = attempt
        self._names = names

    def open(self, restored: RestoredCheckpoint | None, *, may_repeat: bool) -> None:
        """See ``PartOutput.open``."""
        found = self._names_in(self._location)
        check_may_add(
            str(self._location), found, self._names, self._job_id, restored, may_repeat=may_repeat
        )

    def name(self, index: int, parallelism: int, number: int) -> str:
        """See ``Output.name``."""
        return self._names.of_checkpoint(index, parallelism, self._job_id, self._attempt, number)

    def persist(self, names: Iterable[str]) -> None:
        """Upload files, under names that readers ignore."""
        for name in names:
            self._send(name, self._hidden(name))

    def publish(self, checkpoint_id: int, names: Collection[str]) -> None:
        """See ``PartOutput.publish``."""
        for name in names:
            target = self._location / self._names.with_checkpoint(name, checkpoint_id)
            if not checkpoint_id and self._is_committed(name):
                # 0 means a checkpoint of another job, which this job continues. That job was
                # interrupted between a copy and a removal.
                self._remove(f"{HIDDEN}{name}")
                continue
            self._move(self._hidden(name), target)

    def withdraw_after(self, checkpoint_id: int, index: int) -> None:
        """See ``PartOutput.withdraw_after``."""
        behind = [
            part_name
            for part_name in self._names_in(self._location)
            if (part := self._names.committed(part_name))
            and is_behind(part, self._job_id, checkpoint_id, index)
        ]
        for name in behind:
            self._remove(name)
        if behind:
            log.warning(WITHDRAWN, self._location, len(behind), index, checkpoint_id)

    def discard(self, kept: Collection[str], is_own: Callable[[int], bool]) -> None:
        """See ``PartOutput.discard``."""
        for name, part in self._prepared():
            if (
                part.attempt < self._attempt
                and name.removeprefix(HIDDEN) not in kept
                and is_own(part.subtask)
            ):
                self._remove(name)

    def finish(self) -> None:
        """See ``PartOutput.finish``."""
        for name, _ in self._prepared():
            self._remove(name)

    def _is_committed(self, name: str) -> bool:
        """Return whether the object prepared under a name now has a committed name."""
        parts = map(self._names.committed, self._names_in(self._location))
        return any(part is not None and part.prepared_name == name for part in parts)

    def _has_moved(self, source: RemoteLocation, target: RemoteLocation) -> bool:
        # The job that this one continues may have committed it with another checkpoint.
        return self._is_committed(source.name.removeprefix(HIDDEN))

    def _hidden(self, name: str) -> RemoteLocation:
        return self._location / f"{HIDDEN}{name}"

    def _prepared(self) -> list[tuple[str, PreparedPart]]:
        found = [(name, self._names.prepared(name)) for name in self._names_in(self._location)]
        return [(name, part) for name, part in found if part and part.job_id == self._job_id]

    def _remove(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._filesystem.rm((self._location / name).path)


class RemoteDirectory(RemoteFolder):
    """The counterpart of ``OutputDirectory`` for a store."""

    def __init__(self, location: RemoteLocation, transaction: str, names: PartNames) -> None:
        super().__init__(location)
        self._transaction = transaction
        self._names = names
        self._staging = location.parent / f"{HIDDEN}{location.name}.{transaction}.staging"

    def open(self) -> None:
        """See ``StagedOutput.open``."""
        own = {MANIFEST, *self._manifest().get("files", ())}
        for name in self._names_in(self._location):
            if name not in own and not self._names.is_own(name):
                raise ConfigurationError(
                    f"{self._location} holds {name}, which was not written by a job and would be "
                    "taken for part of the result: remove it or choose another location"
                )

    def name(self, index: int, parallelism: int, number: int) -> str:
        """See ``Output.name``."""
        return self._names.of_job(index, parallelism, self._transaction, number)

    def persist(self, names: Iterable[str]) -> None:
        """Upload files to the staging folder, where they wait for the commit."""
        for name in names:
            self._send(name, self._staging / name)

    def commit(self, files: Sequence[str]) -> None:
        """See ``StagedOutput.commit``; objects move one after the other."""
        before = self._manifest()
        if before.get("transaction") != self._transaction:
            for name in files:
                self._move(self._staging / name, self._location / name)
            # The manifest comes after the objects, so that readers that follow it find one complete
            # result.
            manifest = {"transaction": self._transaction, "files": sorted(files)}
            place = self._location / MANIFEST
            self._filesystem.makedirs(self._location.path, exist_ok=True)
            self._filesystem.pipe_file(place.path, json.dumps(manifest).encode())
        own = set(before.get("files", ()))
        for name in self._names_in(self._location):
            if name not in files and (name in own or self._names.is_own(name)):
                self._remove(self._location / name)
        self._remove(self._staging)

    def abort(self) -> None:
        """See ``StagedOutput.abort``; it also removes the objects of an interrupted commit."""
        if self._manifest().get("transaction") != self._transaction:
            for name in self._names_in(self._location):
                if f"-{self._transaction}" in name and self._names.is_own(name):
                    self._remove(self._location / name)
        self._remove(self._staging)

    def _manifest(self) -> dict[str, Any]:
        """Return the manifest of the present result; an empty dict if there is none."""
        self._filesystem.invalidate_cache()
        try:
            manifest = json.loads(self._filesystem.cat_file((self._location / MANIFEST).path))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return {}
        return manifest if isinstance(manifest, dict) else {}

    def _remove(self, location: RemoteLocation) -> None:
        with suppress(FileNotFoundError):
            self._filesystem.rm(location.path, recursive=True)
