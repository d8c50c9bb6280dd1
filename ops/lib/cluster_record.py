"""What a simulator's record says of a campaign to stored devices.

usage: cluster_record.py RECORD DEVICES [--copies-after TIME | --least FROM TO | --last-before TIME WITHIN
       | --most | --rate]

DEVICES is the file that was imported: a header, and a token in each line. Times are those of the
record, in milliseconds. Prints, as NAME=NUMBER:

without an option   lost: devices that have got nothing; twice: devices that have got more than one
--copies-after      notifications that arrived after the time, of tokens that another connection
                    had sent before it: what a process sent that should not
--least             the fewest that arrived in a second between both times, divided by the median
                    of the seconds before and after
--last-before       the time from TIME to the last arrival within the next WITHIN milliseconds
--most              the most that arrived in any second
--rate              arrivals a second, from the first to the last, without the first and the last
                    tenth
"""

import re
import statistics
import sys
from bisect import bisect_left
from collections import Counter

LINE = re.compile(rb'"connection":(\d+),.*?"at":(\d+),.*"token":"([0-9a-f]+)"')


def read(path):
    """The arrivals in the order of the record: connection, time and token."""
    with open(path, "rb") as file:
        for line in file:
            found = LINE.search(line)
            if found and b'"refused"' not in line:
                yield int(found[1]), int(found[2]), found[3]


def seconds(times, start, end):
    """How many arrived in each second from start to end."""
    counts = []
    while start + 1000 <= end:
        counts.append(bisect_left(times, start + 1000) - bisect_left(times, start))
        start += 1000
    return counts


def main():
    option, values = (sys.argv[3], [int(value) for value in sys.argv[4:]]) if len(sys.argv) > 3 else (None, [])
    if option is None:
        counts = Counter(token for _, _, token in read(sys.argv[1]))
        with open(sys.argv[2], "rb") as file:
            next(file)
            lost = sum(line.strip() not in counts for line in file)
        print(f"lost={lost} twice={sum(count > 1 for count in counts.values())}")
        return
    if option == "--copies-after":
        first = {}
        copies = 0
        for connection, at, token in sorted(read(sys.argv[1]), key=lambda arrival: arrival[1]):
            known = first.setdefault(token, (connection, at))
            if at >= values[0] and known[0] != connection and known[1] < values[0]:
                copies += 1
        print(f"copies={copies}")
        return
    times = sorted(at for _, at, _ in read(sys.argv[1]))
    if option == "--least":
        usual = seconds(times, times[0] + 1000, values[0]) + seconds(times, values[1], times[-1] - 1000)
        print(f"least={min(seconds(times, *values)) / max(1, statistics.median(usual)):.2f}")
    elif option == "--last-before":
        last = times[bisect_left(times, sum(values)) - 1]
        print(f"last={max(0, last - values[0])}")
    elif option == "--most":
        most, start = 0, 0
        for index, at in enumerate(times):
            while times[start] <= at - 1000:
                start += 1
            most = max(most, index - start + 1)
        print(f"most={most}")
    elif option == "--rate":
        tenth = len(times) // 10
        first, last = times[tenth], times[-tenth - 1]
        print(f"rate={(len(times) - 2 * tenth) * 1000 / max(1, last - first):.0f}")
    else:
        sys.exit(__doc__)


main()
