"""Sends single notifications one after the other, and prints how long each took in milliseconds.

usage: latency.py API_PORT KEY APP COUNT GATEWAY_PORT CERTIFICATE KEY_FILE [http2]

It is the app's gateway too: over the binary protocol, which is silent on success, or over HTTP/2. A
line has the times until the API has answered, and until the notification has come through TLS; with
HTTP/2 also until the gateway's answer has been told as an outcome.
"""

import http.client
import json
import os
import socket
import ssl
import sys
import threading
import time


class Gateway:
    """Takes whatever comes, and notes when a token is among it."""

    def __init__(self, port, certificate, key):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.listener = socket.create_server(("127.0.0.1", port))
        self.changed = threading.Condition()
        self.wanted, self.arrived_at = None, None
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.read, args=(connection,), daemon=True).start()

    def read(self, connection):
        try:
            connection = self.context.wrap_socket(connection, server_side=True)
            rest = b""
            while block := connection.recv(65536):
                now = time.monotonic()
                with self.changed:
                    if self.wanted and self.wanted in rest + block:
                        self.arrived_at = now
                        self.changed.notify()
                rest = (rest + block)[-64:]
        except OSError:
            pass

    def expect(self, token):
        with self.changed:
            self.wanted, self.arrived_at = token, None

    def arrival(self):
        with self.changed:
            if not self.changed.wait_for(lambda: self.arrived_at, timeout=60):
                sys.exit("A notification has not arrived within a minute.")
            return self.arrived_at


class Requests(Gateway):
    """Over HTTP/2: one request at a time, so whatever comes is the one that is expected."""

    def __init__(self, *parameters):
        super().__init__(*parameters)
        self.context.set_alpn_protocols(["h2"])

    def note(self):
        with self.changed:
            self.arrived_at = time.monotonic()
            self.changed.notify()

    @staticmethod
    def frame(kind, flags, stream, payload=b""):
        return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    def read(self, connection):
        try:
            connection = self.context.wrap_socket(connection, server_side=True)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            file = connection.makefile("rb")
            file.read(24)
            connection.sendall(self.frame(4, 0, 0))
            while header := file.read(9):
                payload = file.read(int.from_bytes(header[:3], "big"))
                kind, flags, stream = header[3], header[4], int.from_bytes(header[5:], "big")
                if kind == 4 and not flags & 1:
                    connection.sendall(self.frame(4, 1, 0))
                elif kind == 6 and not flags & 1:
                    connection.sendall(self.frame(6, 1, 0, payload))
                elif kind == 0 and flags & 1:
                    self.note()
                    # What the body took of the window, and `:status: 200`.
                    window = self.frame(8, 0, 0, len(payload).to_bytes(4, "big")) if payload else b""
                    connection.sendall(window + self.frame(1, 5, stream, b"\x88"))
        except OSError:
            pass


class Outcomes:
    """Follows the stream of an app's outcomes."""

    def __init__(self, port, key, app):
        self.told = {}
        self.changed = threading.Condition()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request(
            "GET", f"/v1/apps/{app}/outcomes?wait=60", None,
            {"Authorization": "Bearer " + key, "Accept": "application/x-ndjson"})
        threading.Thread(target=self.read, args=(connection,), daemon=True).start()

    def read(self, connection):
        for line in connection.getresponse():
            now = time.monotonic()
            with self.changed:
                self.told[json.loads(line)["token"]] = now
                self.changed.notify()

    def time(self, token):
        with self.changed:
            if not self.changed.wait_for(lambda: token.hex() in self.told, timeout=60):
                sys.exit("An outcome has not been told within a minute.")
            return self.told[token.hex()]


def main():
    port, key, app, count = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    has_answers = sys.argv[8:] == ["http2"]
    gateway = (Requests if has_answers else Gateway)(int(sys.argv[5]), sys.argv[6], sys.argv[7])
    outcomes = Outcomes(port, key, app) if has_answers else None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    # The first ones open the connections, and are not counted.
    for number in range(-20, count):
        token = os.urandom(32)
        body = json.dumps({"token": token.hex(), "payload": {"aps": {"alert": "Hello"}}})
        gateway.expect(token)
        began = time.monotonic()
        connection.request(
            "POST", f"/v1/apps/{app}/notifications", body, {"Authorization": "Bearer " + key})
        answer = connection.getresponse()
        text = answer.read()
        answered = time.monotonic()
        if answer.status != 202:
            sys.exit(f"{answer.status} {text.decode()}")
        arrived = gateway.arrival()
        times = [answered, arrived] + ([outcomes.time(token)] if outcomes else [])
        if number >= 0:
            print(" ".join(f"{(instant - began) * 1000:.3f}" for instant in times))


main()
