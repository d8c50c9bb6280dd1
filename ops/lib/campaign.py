"""Starts a campaign and follows it to its end.

usage: campaign.py API_PORT KEY APP BODY_FILE [AUDIENCE_FILE]

Prints how many seconds after the start the first outcome was known, how many until the end, and
how many notifications were accepted.
"""

import http.client
import json
import sys
import time


class Service:
    def __init__(self, port, key):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        self.headers = {"Authorization": "Bearer " + key}

    def ask(self, method, path, body=None, **headers):
        self.connection.request(method, path, body, {**self.headers, **headers})
        answer = self.connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            sys.exit(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text)


def main():
    service = Service(int(sys.argv[1]), sys.argv[2])
    path = f"/v1/apps/{sys.argv[3]}/campaigns"
    with open(sys.argv[4]) as file:
        made = service.ask("POST", path, file.read())
    path = f"{path}/{made['id']}"
    if len(sys.argv) > 5:
        with open(sys.argv[5], "rb") as file:
            service.ask("POST", path + "/audience", file, **{"Content-Type": "text/csv"})
    began = time.monotonic()
    service.ask("POST", path + ":start")
    first = None
    while True:
        state = service.ask("GET", path)
        now = time.monotonic() - began
        if first is None and state["progress"]["accepted"] > 0:
            first = now
            print(f"{first:.3f}", end=" ", flush=True)
        if state.get("endedAt"):
            break
        time.sleep(0.01 if first is None else 0.1)
    print(f"{now:.3f} {state['progress']['accepted']}")


main()
