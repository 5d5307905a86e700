# SPDX-License-Identifier: MIT
"""The manifests of conf/kubernetes, for tests/system/kubernetes.sh.

    kubernetes_manifests.py types FILE           prints them as TypeScript, to be checked for types
    kubernetes_manifests.py config FILE          prints the kvd.ini of the ConfigMap
    kubernetes_manifests.py container FILE NAME  prints a number of the container, for the test:
                                                 memory (bytes), shm (bytes), cpu
    kubernetes_manifests.py consistent FILE      fails if names and numbers in them, and in kvd.ini,
                                                 do not fit each other
"""
import configparser
import json
import re
import sys

import yaml

TYPES = {"ConfigMap": "core/v1", "Service": "core/v1", "StatefulSet": "apps/v1"}
UNITS = {"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def quantity(text):
    number, unit = re.fullmatch(r"(\d+)([KMG]i)?", str(text)).groups(default="")
    return int(number) * UNITS[unit]


class Manifests:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.all = list(yaml.safe_load_all(file))
        self.of = {each["kind"]: each for each in self.all}
        self.set = self.of["StatefulSet"]["spec"]
        self.pod = self.set["template"]["spec"]
        (self.container,) = self.pod["containers"]
        self.ini = self.of["ConfigMap"]["data"]["kvd.ini"]

    def types(self):
        for kind, module in TYPES.items():
            print(f"import type {{ {kind} }} from 'kubernetes-types/{module}';")
        for i, each in enumerate(self.all):
            print(f"export const m{i}: {each['kind']} = {json.dumps(each, indent=1)};")

    def volume(self, path):
        """The volume that is mounted there."""
        (name,) = [m["name"] for m in self.container["volumeMounts"] if m["mountPath"] == path]
        (volume,) = [v for v in self.pod["volumes"] if v["name"] == name]
        return volume

    def number(self, name):
        if name == "shm":
            return quantity(self.volume("/dev/shm")["emptyDir"]["sizeLimit"])
        return quantity(self.container["resources"]["limits"][name])

    def wrong(self):
        """Yields what does not fit."""
        config = configparser.ConfigParser(comment_prefixes=(";", "#"))
        config.read_string(self.ini)
        server = config["server"]
        labels = self.set["template"]["metadata"]["labels"]
        service = self.of["Service"]
        for selector in (self.set["selector"]["matchLabels"], service["spec"]["selector"]):
            if not selector.items() <= labels.items():
                yield f"{selector} selects no pod with {labels}"
        if self.set["serviceName"] != service["metadata"]["name"]:
            yield "serviceName is not the Service's"
        ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        if ports != {port["name"]: port["port"] for port in service["spec"]["ports"]}:
            yield "the Service has other ports"
        if ports["http"] != int(server["http"].rsplit(":", 1)[1]) or ports["rdma"] != 7471:
            yield "kvd.ini has other ports"
        pages = {"startup": "readyz", "readiness": "readyz", "liveness": "healthz"}
        for probe, page in pages.items():
            get = self.container[probe + "Probe"]["httpGet"]
            if get != {"path": "/" + page, "port": "http"}:
                yield f"{probe}Probe: {get}"
        if self.volume("/etc/kvd")["configMap"]["name"] != self.of["ConfigMap"]["metadata"]["name"]:
            yield "the volume of the configuration is not the ConfigMap"
        for path in (config["memory"]["file"], re.search("softnic://(/[^ ,]*)",
                                                         server["listen"])[1]):
            if self.volume(path.rsplit("/", 1)[0])["emptyDir"]["medium"] != "Memory":
                yield f"{path} is on no tmpfs"
        if int(server["workers"]) >= self.number("cpu"):
            yield "the workers need all CPUs"


def main():
    command, manifests = sys.argv[1], Manifests(sys.argv[2])
    if command == "types":
        manifests.types()
    elif command == "config":
        print(manifests.ini, end="")
    elif command == "container":
        print(manifests.number(sys.argv[3]))
    else:
        wrong = list(manifests.wrong())
        print("\n".join(wrong))
        return 1 if wrong else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
