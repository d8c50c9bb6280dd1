"""Providers of the binary protocol for ops/bridge-bench. Each prints one JSON object.

usage: bridge_client.py fast PORT FOLDER TOPIC TOKENS PAYLOAD
           One connection, all notifications as fast as they can be written, then a frame that must
           be refused. Its answer says that everything before it was accepted.
       bridge_client.py resend PORT FOLDER TOPIC TOKENS PAYLOAD
           The same, and after an error response everything that followed is sent again.
       bridge_client.py many PORT FOLDER CLIENTS FRAMES NEW TOPIC…
           Opens CLIENTS connections, those of the topics in turns, prints "open", and reads a line.
           Then NEW more, one after the other, each with one notification, and how long each took:
           until the answer of a frame that must be refused behind it. Reads a line, sends FRAMES
           notifications over each of the CLIENTS connections, prints "sent", and reads a line.
"""

import json
import os
import select
import socket
import ssl
import struct
import sys
import time

# The identifier of a frame that must be refused.
PROBE = 0xFFFF0000


def context(folder, topic):
    made = ssl.create_default_context(cafile=f"{folder}/ca.pem")
    made.load_cert_chain(f"{folder}/{topic}.pem", f"{folder}/{topic}.key")
    return made


def connect(port, made):
    plain = socket.create_connection(("127.0.0.1", port), timeout=120)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made.wrap_socket(plain, server_hostname="localhost")


def item(kind, data):
    return struct.pack(">BH", kind, len(data)) + data


def frame(number, token, payload):
    body = item(1, token) + item(2, payload) + item(3, struct.pack(">I", number))
    body += item(4, struct.pack(">I", 2000000000)) + item(5, b"\n")
    return struct.pack(">BI", 2, len(body)) + body


def answer(tls):
    data = b""
    while len(data) < 6:
        piece = tls.recv(6 - len(data))
        if not piece:
            sys.exit(f"the connection ended after {len(data)} bytes of an answer")
        data += piece
    return struct.unpack(">BBI", data)


def read(tokens, payload):
    with open(tokens) as lines, open(payload, "rb") as text:
        return [bytes.fromhex(line) for line in lines], text.read()


def fast(port, folder, topic, tokens, payload):
    tokens, payload = read(tokens, payload)
    data = memoryview(b"".join(frame(n + 1, token, payload) for n, token in enumerate(tokens)))
    tls = connect(int(port), context(folder, topic))
    began = time.monotonic()
    for at in range(0, len(data), 65536):
        tls.sendall(data[at : at + 65536])
    written = time.monotonic()
    tls.sendall(frame(0, b"", payload))
    found = answer(tls)
    if found != (8, 2, 0):
        sys.exit(f"the probe was to be answered, not {found}")
    ended = time.monotonic()
    print(json.dumps({"count": len(tokens), "written": written - began, "seconds": ended - began}))


def resend(port, folder, topic, tokens, payload):
    tokens, payload = read(tokens, payload)
    made = context(folder, topic)
    began = time.monotonic()
    # Numbers count on over all connections: the one of a token is its place, from 1.
    start, written, refused, connections = 0, 0, [], 0
    while True:
        tls = connect(int(port), made)
        connections += 1
        tls.setblocking(False)
        place, out, got, isover, isprobed = start, b"", b"", False, False
        while not isover and len(got) < 6:
            if not out:
                end = min(len(tokens), place + 100)
                out = b"".join(frame(n + 1, tokens[n], payload) for n in range(place, end))
                written += end - place
                place = end
                if end == len(tokens) and not isprobed:
                    isprobed = True
                    out += frame(PROBE, b"", payload)
            try:
                if out:
                    out = out[tls.send(out) :]
            except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
                pass
            except OSError:
                isover = True
            try:
                piece = tls.recv(6 - len(got))
                got += piece
                isover = isover or not piece
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                has_more = out or place < len(tokens) or not isprobed
                select.select([tls], [tls] if has_more else [], [], 1)
            except OSError:
                isover = True
        tls.close()
        if len(got) < 6:
            sys.exit("a connection ended without an answer")
        command, status, number = struct.unpack(">BBI", got)
        if number == PROBE:
            break
        if status != 10:
            refused.append(tokens[number - 1].hex())
        start = number
    print(
        json.dumps(
            {
                "seconds": time.monotonic() - began,
                "written": written,
                "refused": refused,
                "connections": connections,
            }
        )
    )


def many(port, folder, clients, frames, new, *topics):
    port = int(port)
    contexts = [context(folder, topic) for topic in topics]
    began = time.monotonic()
    held = [connect(port, contexts[n % len(topics)]) for n in range(int(clients))]
    print(json.dumps({"clients": len(held), "seconds": time.monotonic() - began}), flush=True)
    sys.stdin.readline()
    payload, times = b'{"aps":{"alert":"Hello"}}', []
    for n in range(int(new)):
        data = frame(1, os.urandom(32), payload) + frame(2, b"", payload)
        begin = time.monotonic()
        tls = connect(port, contexts[n % len(topics)])
        connected = time.monotonic()
        tls.sendall(data)
        found = answer(tls)
        if found != (8, 2, 2):
            sys.exit(f"the probe was to be answered, not {found}")
        end = time.monotonic()
        times.append(((connected - begin) * 1000, (end - connected) * 1000))
        tls.close()
    print(json.dumps({"times": times}), flush=True)
    sys.stdin.readline()
    # All clients are in the middle of their work at the same time.
    for first in range(0, int(frames), 500):
        count = min(500, int(frames) - first)
        for tls in held:
            tokens = os.urandom(32 * count)
            tls.sendall(
                b"".join(frame(first + n + 1, tokens[32 * n : 32 * n + 32], payload) for n in range(count))
            )
    print(json.dumps({"sent": int(frames) * len(held)}), flush=True)
    sys.stdin.readline()


{"fast": fast, "resend": resend, "many": many}[sys.argv[1]](*sys.argv[2:])
