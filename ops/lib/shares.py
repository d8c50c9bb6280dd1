"""Runs a campaign of each app at the same time, and says what each app sends.

usage: shares.py API_PORT KEY SECONDS BODY_FILE AUDIENCE_FILE APP…

Prints how many notifications of each app were accepted within so many seconds in which no audience
was at its end.
"""

import sys
import time

from control import Service


def main():
    service, seconds = Service(int(sys.argv[1]), sys.argv[2]), float(sys.argv[3])
    paths = [service.campaign(app, sys.argv[4], sys.argv[5]) for app in sys.argv[6:]]
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
