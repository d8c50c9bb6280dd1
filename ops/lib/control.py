"""The control API, for the other programs of this folder."""

import http.client
import json
import sys


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

    def campaign(self, app, body, audience=None):
        """Makes a campaign from files, ready to be started, and returns its path."""
        path = f"/v1/apps/{app}/campaigns"
        with open(body) as file:
            path += "/" + self.ask("POST", path, file.read())["id"]
        if audience:
            with open(audience, "rb") as file:
                self.ask("POST", path + "/audience", file, **{"Content-Type": "text/csv"})
        return path
