"""Sends single notifications one after the other, and prints how long each took in milliseconds.

usage: latency.py API_PORT KEY APP COUNT GATEWAY_PORT CERTIFICATE KEY_FILE

It is the app's gateway too, over the binary protocol, which is silent on success. A line has two
numbers: until the API has answered, and until the notification has come through TLS.
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


def main():
    port, key, app, count = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    gateway = Gateway(int(sys.argv[5]), sys.argv[6], sys.argv[7])
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
        if number >= 0:
            print(f"{(answered - began) * 1000:.3f} {(arrived - began) * 1000:.3f}")


main()
