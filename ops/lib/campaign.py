"""Starts a campaign and follows it to its end.

usage: campaign.py API_PORT KEY APP BODY_FILE [AUDIENCE_FILE]

Prints how many seconds after the start the first outcome was known, how many until the end, and
how many notifications were accepted.
"""

import sys
import time

from control import Service


def main():
    service = Service(int(sys.argv[1]), sys.argv[2])
    path = service.campaign(*sys.argv[3:])
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
