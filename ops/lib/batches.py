"""Posts the same batch over and over from several connections, and says what became of each.

usage: batches.py API_PORT KEY PATH FILE CLIENTS REQUESTS

A line of the output is one request: when it began, its status and how long it took, in
microseconds. A request that is answered by 429 waits for as long as Retry-After says and is sent
again, so each ends with a line of its own. Any other answer than 202 ends everything.
"""

import http.client
import itertools
import sys
import threading
import time

failure = []


def post(connection, path, body, headers):
    began = time.time_ns()
    connection.request("POST", path, body, headers)
    answer = connection.getresponse()
    text = answer.read()
    sys.stdout.write(f"{began // 1000}\t{answer.status}\t{(time.time_ns() - began) // 1000}\n")
    if answer.status not in (202, 429):
        raise OSError(f"{answer.status} {text.decode()}")
    return None if answer.status == 202 else int(answer.getheader("Retry-After"))


def client(port, path, body, headers, numbers, count):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        while next(numbers) < count and not failure:
            while (wait := post(connection, path, body, headers)) is not None:
                time.sleep(wait)
    except (OSError, http.client.HTTPException) as error:
        failure.append(f"{type(error).__name__}: {error}")


def main():
    port, path, count = int(sys.argv[1]), sys.argv[3], int(sys.argv[6])
    with open(sys.argv[4], "rb") as file:
        body = file.read()
    headers = {"Authorization": "Bearer " + sys.argv[2], "Content-Type": "application/x-ndjson"}
    numbers = itertools.count()
    arguments = (port, path, body, headers, numbers, count)
    threads = [threading.Thread(target=client, args=arguments) for _ in range(int(sys.argv[5]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failure:
        sys.exit(failure[0])


main()
