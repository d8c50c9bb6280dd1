"""Registers devices one after the other, each again until it is acknowledged, until SIGTERM.

usage: acknowledgements.py API_PORT KEY APP

Prints how many were acknowledged, and the longest time between two of them, in milliseconds.
"""

import http.client
import os
import signal
import sys
import threading
import time

ended = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: ended.set())


def main():
    headers = {"Authorization": "Bearer " + sys.argv[2], "Content-Type": "application/json"}
    connection = None
    count, longest = 0, 0.0
    last = time.monotonic()
    while not ended.is_set():
        path = f"/v1/apps/{sys.argv[3]}/devices/{os.urandom(32).hex()}"
        while True:
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=10)
                connection.request("PUT", path, "{}", headers)
                answer = connection.getresponse()
                text = answer.read()
            except OSError:
                connection = None
            else:
                if answer.status < 300:
                    break
                if answer.status != 503:
                    sys.exit(f"{answer.status} {text.decode()}")
            time.sleep(0.01)
        count += 1
        longest = max(longest, time.monotonic() - last)
        last = time.monotonic()
        time.sleep(0.01)
    print(count, round(longest * 1000))


main()
