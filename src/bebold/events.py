"""Scalars for TensorBoard, written at once: no thread, so that a full disk is reported where it is met."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path


class EventFile:
    """A new event file in `folder`; from `purge_step` on TensorBoard hides what earlier files say."""

    def __init__(self, folder: Path, purge_step: int | None = None):
        # Imported here: only the process that logs pays for them.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = Event, Summary
        folder.mkdir(parents=True, exist_ok=True)
        # Readers take the files in the order of their names; a resumed run may follow within a second.
        self._file = (folder / f"events.out.tfevents.{time.time():.3f}.{os.getpid()}").open("xb")
        self._records = RecordWriter(self._file)
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))
        if purge_step is not None:
            start = SessionLog(status=SessionLog.START)
            self._write(Event(wall_time=time.time(), step=purge_step, session_log=start))

    def log(self, steps: int, values: Mapping[str, float]) -> None:
        """Write one point of each curve."""
        points = [self._summary.Value(tag=key, simple_value=value) for key, value in values.items()]
        summary = self._summary(value=points)
        self._write(self._event(wall_time=time.time(), step=steps, summary=summary))
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _write(self, event: object) -> None:
        self._records.write(event.SerializeToString())  # type: ignore[attr-defined]
