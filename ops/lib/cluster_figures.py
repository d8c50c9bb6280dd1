"""Prints the figures of ops/cluster: by name, the median, the least and the most of all rounds.

usage: cluster_figures.py FILE     with lines KIND NAME… VALUE
"""

import statistics
import sys


def main():
    figures = {}
    with open(sys.argv[1]) as file:
        for line in file:
            name, value = line.rstrip("\n").rsplit(" ", 1)
            kind, name = name.split(" ", 1)
            figures.setdefault((kind, name), []).append(float(value))
    for (kind, name), values in figures.items():
        median = f"{statistics.median(values):g}"
        spread = f"  ({min(values):g} to {max(values):g})" if len(values) > 1 else ""
        print(f"{kind:<10} {name:<58} {median}{spread}")


main()
