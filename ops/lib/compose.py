"""Checks a compose file: it can be read, and what its services name is there.

usage: compose.py FILE
"""

import sys

import yaml


def main():
    with open(sys.argv[1]) as file:
        compose = yaml.safe_load(file)
    services = compose["services"]
    for name, service in services.items():
        for kind in ("secrets", "networks"):
            for used in service.get(kind, []):
                assert used in compose[kind], f"{name} names {used}, which is none of {kind}"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source.startswith("$") or source in compose["volumes"], f"{name} names the volume {source}"
        for other in service.get("depends_on", {}):
            assert "healthcheck" in services[other], f"{name} waits for {other}, which has no check"
        assert "healthcheck" in service, f"{name} has no check"
        words = [word for word in service.get("environment", {}) if "PASSWORD" in word and not word.endswith("_FILE")]
        assert not words, f"{name} has a password in its environment"


main()
