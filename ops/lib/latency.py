"""Sends single notifications one after the other, and prints how long each took in milliseconds.

usage: latency.py PORT KEY APP COUNT

A line has two numbers: until the answer, and until the service knows the outcome. The second one
includes the way to the gateway and back, so it is an upper bound for the time to the socket.
"""

import http.client
import json
import os
import sys
import time


def ask(connection, method, path, key, body=None):
    connection.request(method, path, body, {"Authorization": "Bearer " + key})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status not in (200, 202):
        sys.exit(f"{method} {path}: {answer.status} {text.decode()}")
    return json.loads(text)


def main():
    port, key, app, count = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    path = f"/v1/apps/{app}/notifications"
    for _ in range(count):
        body = {"token": os.urandom(32).hex(), "payload": {"aps": {"alert": "Hello"}}}
        began = time.monotonic()
        identifier = ask(connection, "POST", path, key, json.dumps(body))["id"]
        answered = time.monotonic()
        while ask(connection, "GET", f"{path}/{identifier}", key)["state"] != "finished":
            time.sleep(0.001)
        ended = time.monotonic()
        print(f"{(answered - began) * 1000:.3f} {(ended - began) * 1000:.3f}")


main()
