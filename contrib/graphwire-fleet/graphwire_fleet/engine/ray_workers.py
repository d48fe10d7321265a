"""Runs batches on a cluster of Ray: an actor for each CPU drives a process there, as a thread of the pool does here."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from collections import Counter
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
_ASK_SECONDS, _ANSWER_SECONDS = 15.0, 60.0
"""An actor is asked so often where it is; one that has answered before, and does not within the second time, is frozen."""
_THREADS = 3
"""Threads of an actor: two for its batches, of which one waits for the other, and one that answers."""
_STORE_BYTES = 1 << 28
_CONNECT_SECONDS = 10.0
_START = "Start one with `ray start --head`, or pass --ray local"


class Runner:
    """What an actor is: it runs batches in a process of its own, within bounds."""

    def __init__(self, work: Work, seconds: float, memory: int | None) -> None:
        self._bounded = Bounded(work, Bounds(seconds, memory or memory_for(cpu_count())))
        self._turn = threading.Lock()

    def run(self, files: Sequence[File]) -> Done:
        """Work on a batch."""
        with self._turn:
            return self._bounded.run(files)

    def place(self) -> str:
        """Return where this runs. A process that is frozen does not answer."""
        return f"process {os.getpid()} on {socket.gethostname()}"


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
        actor = self._ray.remote(
            num_cpus=1, max_restarts=-1, max_task_retries=_RETRIES, max_concurrency=_THREADS
        )(Runner)
        self._actors = [actor.remote(work, seconds, memory) for _ in range(self.count)]
        self._free: list[Any] = self._actors * 2
        self._clock = 0.0
        """Seconds that were waited: what stops this process, or keeps it busy, is no actor's fault."""
        self._asked = {each.place.remote(): each for each in self._actors}
        self._since = dict.fromkeys(self._actors, 0.0)
        """When each actor was asked, by that clock."""
        self._places: dict[Any, str] = {}
        self._frozen: Counter[Any] = Counter()
        self._running: dict[Any, Any] = {}
        self._waiting: list[Sequence[File]] = []

    def submit(self, files: Sequence[File]) -> None:
        self._waiting.append(files)
        self._start()

    def next_done(self, seconds: float) -> Done | None:
        begun = time.monotonic()
        done, _ = self._ray.wait([*self._running, *self._asked], timeout=seconds)
        self._clock += min(seconds, time.monotonic() - begun)
        for each in done:
            if each in self._asked:
                self._hear(each)
                continue
            self._free.append(self._running.pop(each))
            self._start()
            return self._result(each)
        self._ask()
        return None

    def close(self) -> None:
        for each in self._actors:
            with contextlib.suppress(self._ray.exceptions.RayError, ValueError):
                self._ray.kill(each)
        self._ray.shutdown()

    def _start(self) -> None:
        while self._waiting and self._free:
            actor = self._free.pop(0)
            self._running[actor.run.remote(self._waiting.pop(0))] = actor

    def _hear(self, answer: Any) -> None:
        actor = self._asked.pop(answer)
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._places[actor] = self._ray.get(answer)

    def _ask(self) -> None:
        """Ask each actor now and then where it is, and kill those that are frozen: a stopped process keeps to no bounds. Ray
        starts them again, where there is room, and gives them their batches. One that never answered may wait for a CPU."""
        waiting = set(self._asked.values())
        for actor in self._actors:
            since = self._clock - self._since[actor]
            if actor in waiting and actor in self._places and since > _ANSWER_SECONDS:
                self._end(actor)
            elif actor not in waiting and since > _ASK_SECONDS:
                self._asked[actor.place.remote()] = actor
                self._since[actor] = self._clock

    def _end(self, actor: Any) -> None:
        place = self._places.pop(actor)
        self._frozen[actor] += 1
        if self._frozen[actor] > _RETRIES:
            raise FleetError(
                f"an actor of the cluster froze {_RETRIES + 1} times: {place}",
                remedy="See whether its machine works, and run the command again: it goes on where it was",
            )
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(actor, no_restart=False)

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
