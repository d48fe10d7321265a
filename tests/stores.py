"""Stores on this machine, each behind the client that fsspec has for it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_AZURITE = Path(sys.prefix) / "azurite/node_modules/.bin/azurite-blob"
_AZURE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key of Azurite's only account, which its documentation states."""


@dataclass(frozen=True)
class Store:
    """A running store."""

    url: str
    """A bucket in it."""
    options: dict[str, Any] = field(default_factory=dict)
    """Storage options that reach it."""


@contextmanager
def s3() -> Iterator[Store]:
    """moto's server, behind s3fs."""
    import fsspec
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "key": "a",
        "secret": "b",
        "endpoint_url": f"http://{host}:{port}",
        "default_block_size": 5 << 20,
    }
    fsspec.filesystem("s3", **options).makedirs("bucket", exist_ok=True)
    yield Store("s3://bucket", options)
    server.stop()


@contextmanager
def gs() -> Iterator[Store]:
    """The storage emulator in Python, behind gcsfs."""
    import logging

    from gcp_storage_emulator.server import create_server

    port = _free_port()
    logging.disable(logging.INFO)
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket="bucket")
    server.start()
    url = f"http://127.0.0.1:{port}"
    # The client asks for the kind of a bucket by gRPC, which the emulator does not speak.
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
    try:
        yield Store("gs://bucket", {"endpoint_url": url, "token": "anon", "block_size": 5 << 20})
    finally:
        del os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"]
        server.stop()
        logging.disable(logging.NOTSET)


@contextmanager
def az() -> Iterator[Store]:
    """Azurite, which `make test-remote` installs where there is Node, behind adlfs."""
    import fsspec

    port = _free_port()
    command = [
        _AZURITE,
        "--silent",
        "--blobPort",
        str(port),
        "--skipApiVersionCheck",
        "--inMemoryPersistence",
        "--disableTelemetry",
    ]
    with _running(command, port):
        url = f"http://127.0.0.1:{port}/devstoreaccount1"
        account = f"AccountName=devstoreaccount1;AccountKey={_AZURE_KEY}"
        options = {"connection_string": f"DefaultEndpointsProtocol=http;{account};BlobEndpoint={url};"}
        fsspec.filesystem("az", **options).mkdir("bucket")
        yield Store("az://bucket", options)


HAS_AZURITE = _AZURITE.exists()
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def nginx(folder: Path, state: Path) -> Iterator[str]:
    """Serve a folder with nginx, which compresses what it may.

    Args:
        folder: what is served.
        state: a folder for the files of nginx itself.
    """
    assert NGINX
    port = _free_port()
    folders = "".join(
        f"{name}_temp_path {state}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    config = f"""
        {user} daemon off; pid {state}/pid; error_log {state}/error.log; worker_processes 2;
        events {{}}
        http {{ access_log {state}/access.log; {folders}
                gzip on; gzip_types *; gzip_min_length 1;
                server {{ listen 127.0.0.1:{port}; root {folder}; }} }}
    """
    (state / "nginx.conf").write_text(config, encoding="utf-8")
    with _running([NGINX, "-c", state / "nginx.conf", "-e", state / "error.log"], port):
        yield f"http://127.0.0.1:{port}"


@contextmanager
def _running(command: list[Any], port: int) -> Iterator[None]:
    """Run a server until the block ends, which begins when the server listens."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            assert process.poll() is None, f"{command[0]} ended with {process.returncode}"
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:  # Azurite waits for connections that nobody ends
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
