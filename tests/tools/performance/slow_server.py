"""A slow server of the API in its own process. It checks nothing.

    python -m tests.tools.performance.slow_server LATENCY COUNT|BODY|FOLDER

The server prints its port. After LATENCY seconds, it answers each request with the file BODY, with
a list of COUNT instruments, or with the file in FOLDER that belongs to the request (see `named`).
Then it closes the connection.
"""

import asyncio
import json
import sys
from pathlib import Path

STAMP = "2026-11-20T02:15:00.123Z"


def instruments(count: int, prefix: str = "instrument", kind: str = "spot") -> bytes:
    """Return a success body of section 4.5, with a list of instruments."""
    data = [
        {
            "id": f"{prefix}-{number}",
            "resource": "instrument",
            "type": kind,
            "displayName": f"Instrument {number}",
            "feedId": f"feed-{number}",
            "venueSymbol": f"SYM{number}",
            "baseAsset": f"ASSET{number}",
            "termAsset": "USD",
            "tradingConstraints": {"minBaseQty": "0.001", "minTick": "0.01"},
            "createdAt": STAMP,
            "updatedAt": STAMP,
        }
        for number in range(count)
    ]
    return json.dumps({"data": data, "meta": {}}, separators=(",", ":")).encode()


def named(target: str) -> str:
    """Return the file for a request: `portfolios.json`, `venues.json` or `venue-7-spot.json`."""
    path, _, query = target.removeprefix("/edge/v1beta/").partition("?")
    parts = path.split("/")
    kind = query.removeprefix("type=")
    return f"{parts[0]}.json" if len(parts) == 1 else f"{parts[1]}-{kind}.json"


async def serve(latency: float, what: str) -> None:
    """Answer requests forever."""
    body = instruments(int(what)) if what.isdigit() else b""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(latency)
        file = None if body else Path(what)
        if file and file.is_dir():
            file = file / named(head.split(b" ", 2)[1].decode())
        size = file.stat().st_size if file else len(body)
        writer.write(_head(size) + body)
        await writer.drain()
        if file:
            with file.open("rb") as source:
                await asyncio.get_running_loop().sendfile(writer.transport, source)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _head(size: int) -> bytes:
    return (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n"
        "connection: close\r\n\r\n"
    ).encode()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), sys.argv[2]))
