"""Runs batches on a cluster of Ray: an actor for each CPU drives a process there, as a thread of the pool does here."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Sequence
from typing import Any

from graphwire.errors import exception_text
from graphwire_fleet.engine.batches import Bounds, Done
from graphwire_fleet.engine.bounded import Bounded, FleetError
from graphwire_fleet.engine.machine import cpu_count, memory_for
from graphwire_fleet.work import File, Work

_LOCAL = "local"
_RETRIES = 3
"""How often a batch is tried again whose machine is lost."""
_STORE_BYTES = 1 << 28
_CONNECT_SECONDS = 10.0
_START = "Start one with `ray start --head`, or pass --ray local"


class Runner:
    """What an actor is: it runs batches in a process of its own, within bounds."""

    def __init__(self, work: Work, seconds: float, memory: int | None) -> None:
        self._bounded = Bounded(work, Bounds(seconds, memory or memory_for(cpu_count())))

    def run(self, files: Sequence[File]) -> Done:
        """Work on a batch."""
        return self._bounded.run(files)


class RayWorkers:
    """Actors on a cluster of Ray.

    Args:
        work: what is done with each file.
        count: how many actors; None for one for each CPU of the cluster.
        seconds: the time for a file.
        memory: the memory for a file; None for that of the actor's machine, divided by its CPUs.
        address: the cluster's address, `auto`, or `local` for one that is started for this run.
    """

    def __init__(
        self, work: Work, count: int | None, seconds: float, memory: int | None, address: str
    ) -> None:
        self._ray = _connected(address, count)
        self.count = count or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        actor = self._ray.remote(num_cpus=1, max_restarts=-1, max_task_retries=_RETRIES)(Runner)
        self._free: list[Any] = [actor.remote(work, seconds, memory) for _ in range(self.count)] * 2
        self._running: dict[Any, Any] = {}
        self._waiting: list[Sequence[File]] = []

    def submit(self, files: Sequence[File]) -> None:
        self._waiting.append(files)
        self._start()

    def next_done(self, seconds: float) -> Done | None:
        done, _ = self._ray.wait(list(self._running), timeout=seconds)
        for each in done:
            self._free.append(self._running.pop(each))
            self._start()
            return self._result(each)
        return None

    def close(self) -> None:
        for each in self._free + list(self._running.values()):
            with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.kill(each)
        self._ray.shutdown()

    def _start(self) -> None:
        while self._waiting and self._free:
            actor = self._free.pop(0)
            self._running[actor.run.remote(self._waiting.pop(0))] = actor

    def _result(self, reference: Any) -> Done:
        try:
            result: Done = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            raise FleetError(exception_text(error.cause)) from None
        except self._ray.exceptions.RayError as error:
            raise FleetError(
                f"the cluster lost a batch {_RETRIES + 1} times: {exception_text(error)}"
            ) from error
        return result


def _connected(address: str, count: int | None) -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError as error:
        remedy = "Run in a checkout of graphwire: pip install './contrib/graphwire-fleet[ray]'"
        raise FleetError("ray is not installed", remedy=remedy) from error
    # Its errors are raised, too; what it logs is in its own folder.
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address == _LOCAL:
        cpus = count or cpu_count()
        options |= {
            "address": "local",
            "num_cpus": cpus,
            "include_dashboard": False,
            "object_store_memory": _STORE_BYTES,
        }
    else:
        _check_reachable(address)
        options["address"] = address
    try:
        ray.init(**options)
    except (ConnectionError, ValueError, RuntimeError, TimeoutError) as error:
        raise FleetError(f"no cluster of Ray at {address}: {exception_text(error)}", remedy=_START) from error
    return ray


def _check_reachable(address: str) -> None:
    """Check that something listens at `host:port`. Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise FleetError(f"no cluster of Ray at {address}: {exception_text(error)}", remedy=_START) from error
