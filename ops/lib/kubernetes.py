"""Checks a Kubernetes manifest beyond its schema: what its parts say of each other, and prints the
configuration of the service that it has.

usage: kubernetes.py FILE
"""

import sys

import yaml


def seconds(text):
    assert text.endswith("s"), f"{text} is not in seconds"
    return int(text[:-1])


def main():
    with open(sys.argv[1]) as file:
        documents = list(yaml.safe_load_all(file))
    found = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    text = found["ConfigMap", "carillon"]["data"]["carillon.yaml"]
    configuration = yaml.safe_load(text)
    stateful = found["StatefulSet", "carillon"]["spec"]
    pod = stateful["template"]["spec"]
    container = pod["containers"][0]
    volumes = {volume["name"] for volume in pod["volumes"]}
    volumes |= {claim["metadata"]["name"] for claim in stateful["volumeClaimTemplates"]}
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert set(mounts) == volumes, f"mounted are {sorted(mounts)}, and there are {sorted(volumes)}"
    paths = [
        configuration["journal"]["directory"],
        configuration["store"]["postgres"]["password-file"],
        configuration["api"]["certificate"],
        configuration["api"]["key"],
        container["args"][-1],
    ] + [app["credential"]["key"] for app in configuration["apps"]]
    for path in paths:
        assert any(path.startswith(mount + "/") for mount in mounts.values()), f"{path} is on no volume"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    for name, port in ports.items():
        listen = configuration[name]["listen"]
        assert listen == f"0.0.0.0:{port}", f"{name} listens at {listen}, and the port is {port}"
    ending = sum(seconds(value) for value in configuration["shutdown"].values())
    grace = pod["terminationGracePeriodSeconds"]
    assert grace > ending + 10, f"{grace} s are too short for a shutdown of {ending} s"
    labels = stateful["template"]["metadata"]["labels"]
    for (kind, name), document in found.items():
        selector = document["spec"]["selector"] if kind in ("Service", "PodDisruptionBudget") else labels
        selected = selector.get("matchLabels", selector)
        assert selected == labels, f"{kind} {name} selects {selected}"
    assert stateful["serviceName"] in {name for kind, name in found if kind == "Service"}
    print(text)


main()
