"""What a PostgreSQL server does in some seconds.

usage: cluster_load.py PID SECONDS RECORD COMMAND…

PID is that of the server; COMMAND is psql, connected to the services' database. Prints, for each
second: milliseconds of processor time of all its processes, transactions, kilobytes of log that
were written, and lines that the simulator has added to RECORD.
"""

import os
import subprocess
import sys
import time

QUERY = """
SELECT (SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()),
  pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')
"""
TICKS = os.sysconf("SC_CLK_TCK")


def used(server):
    """Processor time in seconds of a server and its sessions, those that have ended, too."""
    total = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(name) == server or int(fields[1]) == server:
            total += int(fields[11]) + int(fields[12])
        if int(name) == server:
            total += int(fields[13]) + int(fields[14])
    return total / TICKS


def state(server, record, command):
    answer = subprocess.run([*command, "--command", QUERY], check=True, capture_output=True, text=True).stdout
    transactions, log = (float(part) for part in answer.strip().split("|"))
    with open(record, "rb") as file:
        lines = sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
    return time.monotonic(), used(server), transactions, log, lines


def main():
    server, seconds, record, command = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:]
    before = state(server, record, command)
    time.sleep(seconds)
    after = state(server, record, command)
    passed, processor, transactions, log, lines = (b - a for a, b in zip(before, after))
    print(
        f"{processor * 1000 / passed:.0f} {transactions / passed:.1f} {log / 1000 / passed:.0f} {lines / passed:.0f}"
    )


main()
