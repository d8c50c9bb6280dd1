"""Registers devices one after the other, 20 a second, until SIGTERM.

usage: registrations.py API_PORT KEY APP

Prints the median, the 99th percentile and the largest time of a registration, in milliseconds.
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
    connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
    headers = {"Authorization": "Bearer " + sys.argv[2], "Content-Type": "application/json"}
    times = []
    while not ended.wait(0.05):
        began = time.monotonic()
        connection.request("PUT", f"/v1/apps/{sys.argv[3]}/devices/{os.urandom(32).hex()}", "{}", headers)
        answer = connection.getresponse()
        text = answer.read()
        times.append((time.monotonic() - began) * 1000)
        if answer.status >= 300:
            sys.exit(f"{answer.status} {text.decode()}")
    times.sort()
    at = [times[min(len(times) - 1, int(len(times) * share))] for share in (0.5, 0.99, 1)]
    print(" ".join(f"{value:.1f}" for value in at))


main()
