#!/usr/bin/env python3
"""A gateway for the binary provider protocol that shares no code with Carillon, for tests.

It needs Python and its standard library only.

usage: ForeignGateway.py CERTIFICATE KEY CLIENT-AUTHORITY RECORD BEHAVIOUR-AS-JSON

Listens on a free port of the loopback, prints {"port": N} and serves until it gets SIGTERM. Then it
writes RECORD, one line for each token ("token times-accepted times-refused"), prints the sums and
ends.

Behaviour (all optional):
  host            address to listen on
  prefix          tokens that begin with this are bad
  reply           what a bad token gets: error | close | fin | notify | reset | stall | garbage   (default error)
  status          of the error response (default 8)
  identifier      real | zero | foreign
  delay           seconds before the reply; what arrives meanwhile is read and thrown away
  split           records: every byte is a TLS record of its own
                  segments: one record, and every byte of it is a TCP segment of its own
  shutdown        after so many good frames on a connection: status 10 naming the last of them
  shutdownLead    so many frames more are read, and not accepted, before that answer is written
  closeAfter      after so many good frames on a connection: `closeReply` (close | fin | notify | reset)
  closeReply
  closeTimes      on so many connections only (default: all)
  probe           real | zero | silent | close | status10    (what a zero-length token gets; default real)
  first           bytes (hex) written before anything is read
  readAfter       seconds before reading begins
  slow            seconds to sleep after each read
  tls             1.2: not above
"""
import collections, json, os, signal, socket, ssl, struct, sys, threading, time

certificate, key, authority, record_path, behaviour = sys.argv[1:6]
behaviour = json.loads(behaviour)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
context.load_verify_locations(authority)
context.verify_mode = ssl.CERT_REQUIRED
if behaviour.get("tls") == "1.2":
    context.maximum_version = ssl.TLSVersion.TLSv1_2

lock = threading.Lock()
accepted, refused = collections.Counter(), collections.Counter()
sums = collections.Counter()


class Ended(Exception):
    pass


class Connection:
    def __init__(self, sock):
        self.sock = sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.buffer = bytearray()
        self.good = 0
        self.last = 0

    def push(self):
        data = self.outgoing.read()
        if data:
            self.sock.sendall(data)

    def pull(self):
        data = self.sock.recv(65536)
        if not data:
            raise Ended
        self.incoming.write(data)

    def handshake(self):
        while True:
            try:
                self.tls.do_handshake()
                return self.push()
            except ssl.SSLWantReadError:
                self.push()
                self.pull()
            except ssl.SSLError:
                self.push()
                raise

    def read(self):
        parts = []
        while True:
            try:
                data = self.tls.read(65536)
                if not data:
                    break
                parts.append(data)
            except ssl.SSLWantReadError:
                if parts:
                    break
                self.pull()
            except ssl.SSLZeroReturnError:
                break
        if not parts:
            raise Ended
        return b"".join(parts)

    def discard(self, seconds):
        """Reads and throws away until the time is over or the peer has closed."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.sock.settimeout(left)
            try:
                if not self.sock.recv(65536):
                    return
            except TimeoutError:
                return
            finally:
                self.sock.settimeout(None)

    def write(self, data):
        if behaviour.get("split") == "records":
            for byte in data:
                self.tls.write(bytes([byte]))
                self.push()
                time.sleep(0.01)
            return
        self.tls.write(data)
        if behaviour.get("split") == "segments":
            for byte in self.outgoing.read():
                self.sock.sendall(bytes([byte]))
                time.sleep(0.001)
        else:
            self.push()

    def close_notify(self):
        try:
            self.tls.unwrap()
        except ssl.SSLError:
            pass
        self.push()

    def finish(self):
        """Half-closes and drains, so that no reset overtakes what was written."""
        self.close_notify()
        self.sock.shutdown(socket.SHUT_WR)
        self.discard(5)
        raise Ended

    def end(self, how):
        with lock:
            sums["closed"] += 1
        if how == "close":
            self.finish()
        if how == "fin":
            self.sock.shutdown(socket.SHUT_WR)
            self.discard(5)
        elif how == "notify":
            # close_notify, and never the end of the stream by ourselves.
            self.close_notify()
            self.discard(600)
        elif how == "reset":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "stall":
            time.sleep(600)
        raise Ended

    def answer(self, status, identifier):
        delay = behaviour.get("delay", 0)
        if delay:
            self.discard(delay)
        self.write(struct.pack(">BBI", 8, status, identifier))
        self.finish()

    def refuse(self, identifier):
        reply = behaviour.get("reply", "error")
        if reply == "garbage":
            self.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            self.finish()
        if reply != "error":
            self.end(reply)
        kind = behaviour.get("identifier", "real")
        self.answer(behaviour.get("status", 8), {"real": identifier, "zero": 0, "foreign": 0x7EDCBA98}[kind])

    def probed(self, identifier):
        with lock:
            sums["probes"] += 1
        kind = behaviour.get("probe", "real")
        if kind == "silent":
            return
        if kind == "close":
            self.end("close")
        if kind == "status10":
            self.answer(10, self.last)
        self.answer(2, identifier if kind == "real" else 0)

    def frames(self):
        data, position = self.buffer, 0
        while True:
            frame = parse(data, position)
            if frame is None:
                break
            position, token, payload, identifier = frame
            if token:
                json.loads(payload)
            yield token, identifier
        del data[:position]

    def serve(self):
        prefix = behaviour.get("prefix")
        shutdown = behaviour.get("shutdown")
        close_after = behaviour.get("closeAfter")
        if "readAfter" in behaviour:
            time.sleep(behaviour["readAfter"])
        self.handshake()
        with lock:
            sums["connections"] += 1
        if "first" in behaviour:
            self.write(bytes.fromhex(behaviour["first"]))
            self.finish()
        while True:
            self.buffer += self.read()
            if "slow" in behaviour:
                time.sleep(behaviour["slow"])
            for token, identifier in self.frames():
                if not token:
                    self.probed(identifier)
                    continue
                name = token.hex()
                if prefix and name.startswith(prefix):
                    with lock:
                        refused[name] += 1
                    self.refuse(identifier)
                if shutdown is not None and self.good >= shutdown:
                    lead = behaviour.get("shutdownLead", 0)
                    if self.good < shutdown + lead:
                        self.good += 1
                        continue
                    self.answer(10, self.last)
                self.good += 1
                self.last = identifier
                with lock:
                    accepted[name] += 1
                if close_after is not None and self.good >= close_after:
                    with lock:
                        again = sums["closed"] < behaviour.get("closeTimes", 1 << 60)
                    if again:
                        self.end(behaviour.get("closeReply", "close"))


def parse(data, at):
    """(end, token, payload, identifier) of the frame that begins at `at`; None when it is not complete."""
    left = len(data) - at
    if left < 1:
        return None
    command = data[at]
    if command == 0 or command == 1:
        start = at + (1 if command == 0 else 9)
        if len(data) < start + 2:
            return None
        identifier = 0 if command == 0 else struct.unpack_from(">I", data, at + 1)[0]
        size, = struct.unpack_from(">H", data, start)
        if len(data) < start + 2 + size + 2:
            return None
        token = bytes(data[start + 2:start + 2 + size])
        second = start + 2 + size
        length, = struct.unpack_from(">H", data, second)
        if len(data) < second + 2 + length:
            return None
        return second + 2 + length, token, bytes(data[second + 2:second + 2 + length]), identifier
    if command != 2:
        raise ValueError(f"command {command}")
    if left < 5:
        return None
    size, = struct.unpack_from(">I", data, at + 1)
    if left < 5 + size:
        return None
    token, payload, identifier = b"", b"", 0
    position, end = at + 5, at + 5 + size
    while position < end:
        item, length = struct.unpack_from(">BH", data, position)
        value = bytes(data[position + 3:position + 3 + length])
        position += 3 + length
        if position > end:
            raise ValueError("item overruns its frame")
        if item == 1:
            token = value
        elif item == 2:
            payload = value
        elif item == 3:
            identifier, = struct.unpack(">I", value)
    return end, token, payload, identifier


def serve(sock):
    connection = Connection(sock)
    try:
        connection.serve()
    except (Ended, OSError):
        pass
    except Exception as error:
        with lock:
            sums["violations"] += 1
        print(f"violation: {error!r}", file=sys.stderr, flush=True)
    finally:
        sock.close()


def finish(*_):
    with lock:
        with open(record_path, "w") as file:
            for token in accepted.keys() | refused.keys():
                file.write(f"{token} {accepted[token]} {refused[token]}\n")
        sums["accepted"] = sum(accepted.values())
        sums["distinct"] = len(accepted)
        sums["refused"] = sum(refused.values())
        print(json.dumps(sums), flush=True)
    os._exit(0)


host = behaviour.get("host", "127.0.0.1")
listener = socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=64)
# In the main thread, which does nothing that could be interrupted with the lock held.
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def accept():
    while True:
        sock, _ = listener.accept()
        threading.Thread(target=serve, args=(sock,), daemon=True).start()


threading.Thread(target=accept, daemon=True).start()
print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
signal.sigwait({signal.SIGTERM})
finish()
