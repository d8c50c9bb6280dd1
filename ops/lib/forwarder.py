"""Forwards TCP connections on loopback, until it is ended. Stopped, it is a network that takes
everything and delivers nothing.

usage: forwarder.py PORT        to this port; prints its own
"""

import asyncio
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def main():
    target = int(sys.argv[1])

    async def accept(reader, writer):
        try:
            inner, outer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, outer), copy(inner, writer))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
