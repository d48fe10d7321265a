"""Serves an exported program over HTTP.

    python serve.py model.pt2 --port 8080
    curl -d '{"args": [[[1, 2, 3, 4]]], "kwargs": {}}' localhost:8080/

Lists of numbers are tensors of float32. A call that does not fit the program is answered with status 400 and what it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from aiohttp import web
from torch.utils import _pytree as pytree

import graphwire


def application(path: str, *, threads: int = 1, verify: bool = True) -> web.Application:
    """Return the application that serves a file. It answers `GET /health` when it is ready."""
    module = graphwire.load_module(path, verify=verify)
    program = graphwire.content_hash(path)
    pool = ThreadPoolExecutor(threads)

    def answer(call: dict[str, Any]) -> Any:
        args, kwargs = _tensors(call.get("args", [])), _tensors(call.get("kwargs", {}))
        with torch.inference_mode():
            given = module(*args, **kwargs)
        return pytree.tree_map_only(torch.Tensor, torch.Tensor.tolist, given)

    async def serve(request: web.Request) -> web.Response:
        try:
            given = await asyncio.get_running_loop().run_in_executor(pool, answer, await request.json())
        except (graphwire.errors.InputError, json.JSONDecodeError, TypeError, ValueError) as error:
            return web.json_response({"error": str(error)}, status=400)
        return web.json_response({"result": given, "program": program})

    async def health(_request: web.Request) -> web.Response:
        return web.json_response({"program": program})

    app = web.Application(client_max_size=1 << 26)
    app.add_routes([web.post("/", serve), web.get("/health", health)])
    return app


def _tensors(value: Any) -> Any:
    """Return data with tensors in place of lists of numbers, one level below the arguments."""
    if isinstance(value, dict):
        return {key: torch.tensor(each) if isinstance(each, list) else each for key, each in value.items()}
    return [torch.tensor(each) if isinstance(each, list) else each for each in value]


def main() -> None:
    """Serve the file that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", help="a file of graphwire, or of torch.export.save")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument(
        "--threads", type=int, default=1, help="calls at once; 1 where the program changes buffers"
    )
    options = parser.parse_args()
    web.run_app(application(options.file, threads=options.threads), port=options.port)


if __name__ == "__main__":
    main()
