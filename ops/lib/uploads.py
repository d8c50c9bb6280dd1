"""Posts the same large body over and over from several connections, until SIGTERM.

usage: uploads.py API_PORT KEY PATH FILE CLIENTS

The first line of the output says that the first body was sent as a whole. The last one has how often
each status came. A request that is answered by 429 or 503 is sent again when Retry-After says so.
"""

import collections
import http.client
import os
import signal
import sys
import threading
import time

failure = []
counts = collections.Counter()
begun = threading.Event()
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())


def client(port, path, body, headers):
    try:
        while not ended.is_set() and not failure:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
            connection.request("POST", path, body, headers)
            begun.set()
            answer = connection.getresponse()
            text = answer.read()
            counts[answer.status] += 1
            connection.close()
            if answer.status not in (200, 202, 422, 429, 503):
                raise OSError(f"{answer.status} {text.decode()}")
            if answer.status in (429, 503):
                ended.wait(int(answer.getheader("Retry-After") or 1))
    except (OSError, http.client.HTTPException) as error:
        failure.append(f"{type(error).__name__}: {error}")
        ended.set()


def main():
    with open(sys.argv[4], "rb") as file:
        body = file.read()
    headers = {"Authorization": "Bearer " + sys.argv[2], "Content-Type": "application/x-ndjson"}
    arguments = (int(sys.argv[1]), sys.argv[3], body, headers)
    for _ in range(int(sys.argv[5])):
        threading.Thread(target=client, args=arguments, daemon=True).start()
    begun.wait(60)
    print("begun", flush=True)
    while not ended.wait(1):
        pass
    time.sleep(0.1)
    print(" ".join(f"{status}:{count}" for status, count in sorted(counts.items())), flush=True)
    if failure:
        print(failure[0], file=sys.stderr)
    os._exit(1 if failure else 0)


main()
