#!/usr/bin/env python3
"""A service for the HTTP/2 provider API on python3-h2, for tests: it shares no code with Carillon.

usage: ForeignProvider.py CERTIFICATE KEY CLIENT-AUTHORITY RECORD BEHAVIOUR-AS-JSON

Listens on a free port of the loopback, prints {"port": N} and serves until it gets SIGTERM. Then it
writes RECORD, one line for each token ("token times-accepted times-refused"), prints the sums and
ends. What a token gets is in its last digit:
  0  410 Unregistered, since 1700000000000
  1  400 BadDeviceToken
  2  500 InternalServerError the first time, afterwards 200
  otherwise 200

Behaviour (all optional):
  settings        sent first: {"streams", "table", "window", "frame"}, see SETTINGS of RFC 9113
  later           sent after 300 requests of a connection: the same
  informational   one answer in so many has a 103 in front of it
  trailers        one refusal in so many ends with trailers
  padding         bytes behind each body
  goaway          after so many requests of a connection: all of them are answered, and it ends
  ping            one PING in so many requests
"""
import asyncio, collections, json, re, signal, ssl, sys

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import ConnectionTerminated, DataReceived, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

certificate, key, authority, record_path, behaviour = sys.argv[1:6]
behaviour = json.loads(behaviour)
codes = {
    "streams": SettingCodes.MAX_CONCURRENT_STREAMS,
    "table": SettingCodes.HEADER_TABLE_SIZE,
    "window": SettingCodes.INITIAL_WINDOW_SIZE,
    "frame": SettingCodes.MAX_FRAME_SIZE,
}
accepted, refused, failed = collections.Counter(), collections.Counter(), set()
sums = collections.Counter({"accepted": 0, "refused": 0, "connections": 0, "violations": 0})
IDENTIFIER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def settings(name):
    return {codes[each]: value for each, value in behaviour.get(name, {}).items()}


def is_turn(name, number):
    return name in behaviour and number % behaviour[name] == 0


class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        sums["connections"] += 1
        self.transport = transport
        self.http2 = H2Connection(config=H2Configuration(client_side=False, header_encoding="utf-8"))
        self.http2.initiate_connection()
        if "settings" in behaviour:
            self.http2.update_settings(settings("settings"))
        self.headers, self.bodies, self.count, self.has_ended = {}, {}, 0, False
        self.write()

    def write(self):
        self.transport.write(self.http2.data_to_send())

    def data_received(self, data):
        try:
            events = self.http2.receive_data(data)
            for event in events:
                if not self.has_ended:
                    self.take(event)
        except ProtocolError as error:
            sums["violations"] += 1
            print(f"a violation: {error!r}", file=sys.stderr)
        self.write()

    def take(self, event):
        if isinstance(event, RequestReceived):
            self.headers[event.stream_id] = dict(event.headers)
            self.bodies[event.stream_id] = b""
        elif isinstance(event, DataReceived):
            self.bodies[event.stream_id] += event.data
            if event.flow_controlled_length:
                self.http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded):
            self.answer(event.stream_id)
        elif isinstance(event, StreamReset):
            self.headers.pop(event.stream_id, None)
        elif isinstance(event, ConnectionTerminated):
            self.has_ended = True
            self.transport.close()

    def answer(self, stream):
        headers, body = self.headers.pop(stream), self.bodies.pop(stream)
        self.count += 1
        token = headers.get(":path", "").removeprefix("/3/device/")
        identifier = headers.get("apns-id", "")
        try:
            payload = json.loads(body)
        except ValueError:
            payload = None
        if headers.get(":method") != "POST" or headers.get(":scheme") != "https" or not IDENTIFIER.fullmatch(identifier):
            sums["violations"] += 1
        if not isinstance(payload, dict) or "aps" not in payload or headers.get("apns-topic") != "com.example.news":
            sums["violations"] += 1
        status, reason = 200, None
        if token[-1:] == "0":
            status, reason = 410, {"reason": "Unregistered", "timestamp": 1700000000000}
        elif token[-1:] == "1":
            status, reason = 400, {"reason": "BadDeviceToken"}
        elif token[-1:] == "2" and token not in failed:
            failed.add(token)
            status, reason = 500, {"reason": "InternalServerError"}
        (accepted if status == 200 else refused)[token] += 1
        sums["accepted" if status == 200 else "refused"] += 1
        if is_turn("informational", self.count):
            self.http2.send_headers(stream, [(":status", "103"), ("link", "</a>; rel=preload")])
        answer = [(":status", str(status)), ("apns-id", identifier), ("x-number", str(self.count))]
        self.http2.send_headers(stream, answer, end_stream=reason is None)
        if reason is not None:
            trailers = is_turn("trailers", self.count)
            self.http2.send_data(
                stream, json.dumps(reason).encode(), end_stream=not trailers, pad_length=behaviour.get("padding"))
            if trailers:
                self.http2.send_headers(stream, [("x-trailer", "1")], end_stream=True)
        if is_turn("ping", self.count):
            self.http2.ping(b"carillon")
        if self.count == 300 and "later" in behaviour:
            self.http2.update_settings(settings("later"))
        if self.count == behaviour.get("goaway"):
            # What came behind it is not processed, and may be sent again.
            self.has_ended = True
            self.http2.close_connection(last_stream_id=stream)
            self.write()
            self.transport.close()


async def serve():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(authority)
    context.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, ssl=context)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    ended = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    with open(record_path, "w") as file:
        for token in accepted.keys() | refused.keys():
            print(token, accepted[token], refused[token], file=file)
    print(json.dumps(sums), flush=True)


asyncio.run(serve())
