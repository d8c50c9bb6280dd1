"""Runs a campaign of each app at the same time, and says what each app sends.

usage: shares.py API_PORT KEY SECONDS BODY_FILE AUDIENCE_FILE APP…

Prints how many notifications of each app were accepted within so many seconds in which no audience
was at its end.
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
    service, seconds = Service(int(sys.argv[1]), sys.argv[2]), float(sys.argv[3])
    paths = []
    for app in sys.argv[6:]:
        path = f"/v1/apps/{app}/campaigns"
        with open(sys.argv[4]) as file:
            path += "/" + service.ask("POST", path, file.read())["id"]
        with open(sys.argv[5], "rb") as file:
            service.ask("POST", path + "/audience", file, **{"Content-Type": "text/csv"})
        paths.append(path)
    for path in paths:
        service.ask("POST", path + ":start")

    def accepted():
        states = [service.ask("GET", path) for path in paths]
        if any(state.get("endedAt") for state in states):
            sys.exit("The audience is too small: a campaign has ended.")
        return [state["progress"]["accepted"] for state in states]

    # Each of them sends, and has all of its connections.
    while not all(accepted()):
        time.sleep(0.01)
    time.sleep(3)
    before = accepted()
    time.sleep(seconds)
    print(*(after - count for after, count in zip(accepted(), before)))


main()
