"""Receives outcomes over HTTPS, as somebody would write it with the guide and Python's library.

usage: WebhookReceiver.py PORT CERTIFICATE KEY SECRETS RECORD MODE

SECRETS and MODE are files that are read for each delivery: one secret in each line; and what to do:
a status to answer, `drop` (no answer), or `garbage` (no HTTP). Without MODE, deliveries are
acknowledged. Each delivery is a line of RECORD before it is answered.
"""
import hashlib
import hmac
import json
import os
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

port, certificate, key, secrets, record, mode = sys.argv[1:]


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        parts = [part.split("=", 1) for part in self.headers["Carillon-Signature"].split(",")]
        instant = next(value for name, value in parts if name == "t")
        codes = [value for name, value in parts if name == "v1"]
        with open(secrets, "rb") as file:
            known = file.read().splitlines()
        expected = [
            hmac.new(secret, instant.encode() + b"." + body, hashlib.sha256).hexdigest() for secret in known
        ]
        what = "200"
        if os.path.exists(mode):
            with open(mode) as file:
                what = file.read().strip()
        line = {
            "path": self.path, "type": self.headers["Content-Type"], "host": self.headers["Host"],
            "isFresh": abs(time.time() - int(instant)) < 300, "connection": self.client_address[1],
            "signed": [code in codes for code in expected], "codes": len(codes), "answer": what,
            "body": json.loads(body),
        }
        with open(record, "a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
        if what == "drop":
            self.close_connection = True
            return
        if what == "garbage":
            self.wfile.write(b"220 mail.example.com ESMTP\r\n")
            self.close_connection = True
            return
        self.send_response(int(what))
        if what.startswith("3"):
            self.send_header("Location", "https://localhost:1/elsewhere")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *arguments):
        pass


server = ThreadingHTTPServer(("localhost", int(port)), Receiver)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
print("ready", flush=True)
server.serve_forever()
