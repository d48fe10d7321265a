"""HTTP servers for tests: one that serves a folder by ranges, as any does, and one that misbehaves."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from aiohttp import web


class FolderServer:
    """A folder behind aiohttp's file server. It counts what it is asked for."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[str] = []
        """The header `Range` of each request."""
        self.nbytes = 0
        """The bytes of all answers' bodies."""
        self.most_at_once = 0
        self.waits = False
        """Whether the third request is answered when another one arrives, or after ten seconds."""
        self._at_once = 0

    @web.middleware
    async def count(self, request: web.Request, handler: Callable[..., Awaitable[web.StreamResponse]]) -> Any:
        self.requests.append(f"{request.method} {request.headers.get('Range', '')}")
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        for _ in range(1000 if self.waits and len(self.requests) > 2 else 0):
            if self.most_at_once > 1:
                break
            await asyncio.sleep(0.01)
        response = await handler(request)
        self._at_once -= 1
        return response

    async def measure(self, request: web.Request, response: web.StreamResponse) -> None:
        found = re.fullmatch(r"bytes (\d+)-(\d+)/\d+", response.headers.get("Content-Range", ""))
        if found:
            self.nbytes += int(found[2]) - int(found[1]) + 1
        elif request.method == "GET":
            self.nbytes += int(response.headers.get("Content-Length", 0))


@contextmanager
def folder_server(folder: Path) -> Iterator[FolderServer]:
    """Serve a folder while the block runs."""
    server = FolderServer()
    app = web.Application(middlewares=[server.count])
    app.on_response_prepare.append(server.measure)
    app.router.add_static("/", folder)
    runner = web.AppRunner(app)

    async def start() -> None:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        _, port = runner.addresses[0][:2]
        server.url = f"http://127.0.0.1:{port}"

    with _loop_in_thread() as loop:
        asyncio.run_coroutine_threadsafe(start(), loop).result()
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()


class Connection:
    """One request to a misbehaving server."""

    def __init__(self, number: int, start: int, end: int, data: bytes, writer: asyncio.StreamWriter) -> None:
        self.number = number
        """How many requests came before."""
        self.start = start
        self.end = end
        """The range that is requested, of `data`."""
        self.data = data
        self.wanted = data[start:end]
        self._writer = writer

    async def send(self, status: str, body: bytes, **headers: object) -> None:
        """Send an answer; its headers are as given, and its body, too."""
        lines = [
            f"HTTP/1.1 {status}",
            *(f"{name.replace('_', '-')}: {text}" for name, text in headers.items()),
        ]
        self._writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
        await self._writer.drain()

    async def answer(self, **changed: object) -> None:
        """Send what was asked for, with changed headers."""
        await self.send("206 Partial Content", self.wanted, **(self.headers | changed))

    @property
    def headers(self) -> dict[str, object]:
        """The right headers."""
        stated = f"bytes {self.start}-{self.end - 1}/{len(self.data)}"
        return {"Content_Length": self.end - self.start, "Content_Range": stated, "ETag": '"1"'}


@contextmanager
def misbehaving_server(
    data: bytes, behave: Callable[[Connection], Awaitable[None]]
) -> Iterator[tuple[str, list[int]]]:
    """Run a server of one file, whose answers a function sends; yield its URL, and a list with an element a request."""
    asked: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        found = re.search(r"(?im)^range: bytes=(\d*)-(\d*)", head)
        assert found is not None, "every request is for a range"
        first, last = found.groups()
        start = int(first) if first else max(0, len(data) - int(last))
        end = min(int(last) + 1, len(data)) if first and last else len(data)
        asked.append(start)
        try:
            await behave(Connection(len(asked) - 1, start, end, data, writer))
        except ConnectionError:
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    with _loop_in_thread() as loop:
        serving = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(handle, "127.0.0.1", 0), loop
        ).result()
        port = serving.sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{port}/program.pt2", asked
        finally:
            loop.call_soon_threadsafe(serving.close)


@contextmanager
def _loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:

        async def cancel() -> None:
            others = asyncio.all_tasks() - {asyncio.current_task()}
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(cancel(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
