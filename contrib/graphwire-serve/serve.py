"""Serves an exported program over HTTP: the README beside says how to call it.

Arguments are as `graphwire inspect` shows them, and tensors are lists. What does not fit gets status 400, and what it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import socket
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import torch
from aiohttp import web
from torch.utils import _pytree as pytree

import graphwire


def application(path: str, *, threads: int = 1, verify: bool = True) -> web.Application:
    """Return the application that serves a file. It answers `GET /health` when it is ready."""
    module = graphwire.load_module(path, verify=verify)
    module.recompile()  # Generates the code now, so that no call waits for it.
    program, interface = graphwire.content_hash(path), graphwire.inspect(path).methods[0].summary.interface
    by_position = SimpleNamespace(container="builtins.list", children=interface.inputs)
    by_name = SimpleNamespace(container="builtins.dict", children=interface.keywords)
    pool = ThreadPoolExecutor(threads)

    def answer(call: dict[str, Any]) -> Any:
        try:
            args, kwargs = _value(by_position, call.get("args", [])), _value(by_name, call.get("kwargs", {}))
        except (AttributeError, RuntimeError, TypeError, ValueError) as error:
            raise graphwire.errors.InputError(f"the arguments cannot be read: {error}") from error
        with torch.inference_mode():
            given = module(*args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.tolist, given)

    async def serve(request: web.Request) -> web.Response:
        try:
            given = await asyncio.get_running_loop().run_in_executor(pool, answer, await request.json())
        except (graphwire.errors.InputError, json.JSONDecodeError, UnicodeError) as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response({"result": given, "program": program})

    async def health(_request: web.Request) -> web.Response:
        return web.json_response({"program": program})

    app = web.Application(client_max_size=1 << 26)
    app.add_routes([web.post("/", serve), web.get("/health", health)])
    return app


def _value(wanted: Any, given: Any) -> Any:
    """Return what the program takes for a value of JSON: a container, a tensor, or a plain value."""
    if wanted.container == "builtins.dict":
        trees = {each.name: each for each in wanted.children}
        return {name: _value(trees[name], each) if name in trees else each for name, each in given.items()}
    if wanted.container:
        made = [*map(_value, wanted.children, given), *given[len(wanted.children) :]]
        return tuple(made) if wanted.container == "builtins.tuple" else made
    dtype, _, shape = wanted.leaf.partition(" ")
    return torch.tensor(given, dtype=getattr(torch, dtype)) if shape.startswith("[") else given


def main() -> None:
    """Serve the file that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", help="a file of graphwire, or of torch.export.save")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--threads", type=int, default=1, help="1 where the program changes buffers")
    options = parser.parse_args()
    app = application(options.file, threads=options.threads)
    web.run_app(app, port=options.port, reuse_port=hasattr(socket, "SO_REUSEPORT"))  # for several processes


if __name__ == "__main__":
    main()
