# SPDX-License-Identifier: MIT
"""Clients of server.http for tests/system/http.sh.

    http_client.py slow HOST:PORT COUNT SOURCE    asks for /metrics by COUNT connections from the
                                                  address SOURCE, reads nothing, and waits for the
                                                  end of its input
    http_client.py drip HOST:PORT COUNT SOURCE    sends requests that do not end, byte by byte; goes
                                                  on until the end of its input; for a * in SOURCE
                                                  each connection has a number of its own
    http_client.py flood HOST:PORT COUNT SOURCE   opens connections and closes them
    http_client.py garbage HOST:PORT SOURCE       sends what is no request
    http_client.py statistics SCRAPE < STATS      each statistic is a metric of the file SCRAPE, or
                                                  tests/system/http_stats says why not
    http_client.py names SCRAPE FILE...           each metric kvd_* of the files is in SCRAPE
"""
import json
import random
import re
import select
import socket
import sys

TIMEOUT_S = 300
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: kvd\r\n\r\n"
FLOOD_AT_ONCE = 50
DRIP_S = 0.1
KEPT_MAX = 16  # HTTP_CONNECTIONS_OF_ADDRESS_MAX
ANSWER_S = 0.02


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def connect(server, source):
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.settimeout(TIMEOUT_S)
    connection.bind((source, 0))
    connection.connect(address(server))
    return connection


def slow(server, count, source):
    connections = [connect(server, source) for _ in range(int(count))]
    for connection in connections:
        try:
            connection.sendall(SCRAPE)
        except OSError:  # the server has closed it
            pass
    print("sent", flush=True)
    sys.stdin.read()


def drip(server, count, source):
    """The server closes what is beyond its limit, and goes on to wait for the rest."""
    connections = [connect(server, source.replace("*", str(number)))
                   for number in range(1, int(count) + 1)]
    for connection in connections:
        connection.setblocking(False)
    print("connected", flush=True)
    told = False
    while not select.select([sys.stdin], [], [], DRIP_S)[0]:
        for connection in list(connections):
            try:
                connection.send(b"G")
                if not connection.recv(1):
                    raise ConnectionError
            except BlockingIOError:
                pass
            except OSError:
                connections.remove(connection)
                connection.close()
        if not told and len(connections) <= KEPT_MAX:
            print("kept", len(connections), flush=True)
            told = True


def flood(server, count, source):
    for _ in range(int(count) // FLOOD_AT_ONCE):
        connections = [connect(server, source) for _ in range(FLOOD_AT_ONCE)]
        for connection in connections:
            connection.close()


def garbage(server, source):
    chance = random.Random(1)
    texts = [
        b"\0", b"\r\n\r\n\r\n", b"GET", b"GET / HTTP/9.9\r\n\r\n", b"GET /metrics\r\n\r\n",
        b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: " + b"b" * 100000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 100000 + b"\r\n",
        b"GET /../../etc/passwd HTTP/1.1\r\nHost: kvd\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nAuthorization: Basic " + b"!" * 2000 + b"\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ]
    texts += [chance.randbytes(chance.randrange(1, 2000)) for _ in range(200)]
    for text in texts:
        connection = connect(server, source)
        try:
            connection.sendall(text)
            connection.shutdown(socket.SHUT_WR)
            # The server waits for the rest of some; others it has refused by now.
            select.select([connection], [], [], ANSWER_S)
        except OSError:  # the server has closed it
            pass
        connection.close()


def metrics_of(scrape):
    with open(scrape, encoding="utf-8") as file:
        return {name for line in file
                for name in re.findall(r"^(?:# TYPE )?([a-z_0-9]+)", line)}


def exceptions():
    with open("tests/system/http_stats", encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                pattern, metric = line.split(None, 1)
                yield re.escape(pattern).replace("N", "[^.]+"), metric.strip()


def statistics(scrape):
    metrics, known, missing, unused = metrics_of(scrape), list(exceptions()), [], set()
    unused = {pattern for pattern, _ in known}
    names = [line.split()[0] for line in sys.stdin]
    for name in names:
        found = next(((p, metric) for p, metric in known if re.fullmatch(p, name)), None)
        if found:
            unused.discard(found[0])
            if not found[1].startswith("(") and found[1] not in metrics:
                missing.append(f"{name}: there is no metric {found[1]}")
            continue
        metric = "kvd_" + re.sub("[.]", "_", name)
        if metric not in metrics and metric + "_total" not in metrics:
            missing.append(f"{name}: there is no metric {metric}, nor {metric}_total")
    for pattern in unused - {re.escape("flush.N.due_in_s").replace("N", "[^.]+"),
                             re.escape("flush.N.owner").replace("N", "[^.]+"),
                             re.escape("curve.N.hits").replace("N", "[^.]+")}:
        missing.append(f"http_stats: no statistic is like {pattern}")
    print("\n".join(missing) or f"{len(names)} statistics")
    return bool(missing) or len(names) < 200


def expressions(path):
    """The texts that have metrics: of a dashboard only its queries."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not path.endswith(".json"):
        return text
    found = []

    def visit(value):
        if isinstance(value, dict):
            found.extend(value[key] for key in ("expr", "query", "definition")
                         if isinstance(value.get(key), str))
            for inner in value.values():
                visit(inner)
        elif isinstance(value, list):
            for inner in value:
                visit(inner)

    visit(json.loads(text))
    return "\n".join(found)


def names(scrape, *paths):
    metrics, bad = metrics_of(scrape), 0
    for _, metric in exceptions():
        metrics.update(re.findall(r"kvd_[a-z_0-9]+", metric))  # of fleets: test_metrics has them
    for path in paths:
        used = set(re.findall(r"\b(?:kvd|process)_[a-z_0-9]+", expressions(path)))
        for name in sorted(used - metrics):
            print(f"{path}: there is no metric {name}")
            bad += 1
        print(f"{path}: {len(used)} metrics")
        bad += not used
    return bad


if __name__ == "__main__":
    sys.exit(globals()[sys.argv[1]](*sys.argv[2:]))
