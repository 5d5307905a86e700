#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients of memcached's protocol that ask one member of a fleet for the keys of all.

    memcached_fleet.py CASE PORT... [WORD]...

CASE is the name of a function below; PORT are the members' ports, of which most cases ask the first
alone. Prints what is wrong and exits with 1.
"""
import signal
import socket
import sys
import time

PATIENCE_S = 300
KEYS = 60


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def send(self, text):
        self.socket.sendall(text if isinstance(text, bytes) else text.encode())

    def line(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise SystemExit(f"the connection has ended after {line!r}")
        return line[:-2].decode()

    def ask(self, text):
        self.send(text)
        return self.line()

    def want(self, text, line):
        got = self.ask(text)
        if got != line:
            raise SystemExit(f"{text[:80]!r}: {got!r} instead of {line!r}")

    def value(self, length):
        value = self.file.read(length)
        if self.file.read(2) != b"\r\n":
            raise SystemExit("a value has another length")
        return value

    def values(self):
        """The answer to get, gets, ...: [(key, flags, cas, value)] in order, and its last line."""
        found = []
        while True:
            line = self.line()
            if not line.startswith("VALUE "):
                return found, line
            key, flags, length, *cas = line.split()[1:]
            found.append((key, int(flags), int(cas[0]) if cas else None, self.value(int(length))))

    def get(self, key, command="get"):
        self.send(f"{command} {key}\r\n")
        found, last = self.values()
        if last != "END" or len(found) > 1:
            raise SystemExit(f"{command} {key}: {found!r} and {last!r}")
        return found[0] if found else None

    def put(self, command, key, value, flags=0, ttl=0, more=""):
        head = f"{command} {key} {flags} {ttl} {len(value)}{more}\r\n".encode()
        return self.ask(head + value + b"\r\n")


def must(got, wanted, what):
    if got != wanted:
        raise SystemExit(f"{what}: {repr(got)[:200]} instead of {repr(wanted)[:200]}")


def keys(prefix, count=KEYS):
    return [f"{prefix}{i}" for i in range(count)]


def classic(port):
    """Each command, for keys of all members, is answered as by one server."""
    c = Client(port)
    for key in keys("c"):
        must(c.get(key), None, key)
        must(c.put("replace", key, b"x"), "NOT_STORED", "replace of nothing")
        must(c.put("append", key, b"x"), "NOT_STORED", "append to nothing")
        must(c.put("cas", key, b"x", more=" 5"), "NOT_FOUND", "cas of nothing")
        c.want(f"incr {key} 1\r\n", "NOT_FOUND")
        c.want(f"touch {key} 100\r\n", "NOT_FOUND")
        c.want(f"delete {key}\r\n", "NOT_FOUND")
        must(c.put("add", key, b"one", 7), "STORED", "add")
        must(c.put("add", key, b"two", 8), "NOT_STORED", "add again")
        must(c.get(key), (key, 7, None, b"one"), key)
        cas = c.get(key, "gets")[2]
        must(c.put("cas", key, b"no", more=f" {cas + 1}"), "EXISTS", "cas of another version")
        must(c.put("cas", key, b"no", more=" 0"), "EXISTS", "cas of version 0")
        must(c.put("cas", key, b"two", 9, more=f" {cas}"), "STORED", "cas")
        must(c.get(key, "gets")[2] > cas, True, "the version grows")
        must(c.put("append", key, b">"), "STORED", "append")
        must(c.put("prepend", key, b"<"), "STORED", "prepend")
        must(c.get(key), (key, 9, None, b"<two>"), key)
        must(c.put("replace", key, b"10", 3), "STORED", "replace")
        c.want(f"incr {key} 5\r\n", "15")
        c.want(f"decr {key} 100\r\n", "0")
        c.want(f"touch {key} 1000\r\n", "TOUCHED")
        must(c.get(key, "gat 1000"), (key, 3, None, b"0"), "gat")
        must(c.get(key, "gats 1000")[2], c.get(key, "gets")[2], "gats does not change the version")
        must(c.put("set", key, b"word"), "STORED", "set")
        c.want(f"incr {key} 1\r\n",
               "CLIENT_ERROR cannot increment or decrement non-numeric value")
        must(c.get(key, "gat -1"), (key, 0, None, b"word"), "gat that ends the item")
        must(c.get(key), None, "after gat -1")
        must(c.put("set", key, b"gone", ttl=-1), "STORED", "set of what has expired")
        must(c.get(key), None, "what has expired")
        must(c.put("add", key, b"gone", ttl=-1), "STORED", "add of what has expired")
        must(c.put("set", key, b"last"), "STORED", "set")
        c.want(f"touch {key} -1\r\n", "TOUCHED")
        must(c.get(key), None, "after touch -1")
        must(c.put("set", key, f"value of {key}".encode(), 5), "STORED", "set")
    for key in keys("c")[::2]:
        c.want(f"delete {key}\r\n", "DELETED")
        must(c.get(key), None, key)


def expiry(port):
    """A time to live reaches the member."""
    c = Client(port)
    for key in keys("e", 12):
        must(c.put("set", key, b"x", ttl=1), "STORED", "set")
    end = time.monotonic() + PATIENCE_S
    for key in keys("e", 12):
        while c.get(key):
            must(time.monotonic() < end, True, f"{key} expires")
            time.sleep(0.05)
    for key in keys("e", 12):
        c.want(f"ms {key} 1 T1000\r\nx\r\n", "HD")
        left = int(c.ask(f"mg {key} t\r\n").split()[1][1:])
        must(900 < left <= 1000, True, f"{key}: time left {left}")
        must(int(c.ask(f"mg {key} t T500\r\n").split()[1][1:]) <= 500, True, "mg T")


def meta(port):
    c = Client(port)
    for key in keys("m"):
        c.want(f"mg {key} v\r\n", "EN")
        c.want(f"mg {key} v q\r\nmn\r\n", "MN")
        c.want(f"md {key}\r\n", "NF")
        c.want(f"ma {key}\r\n", "NF")
        c.want(f"ms {key} 3 MR\r\nabc\r\n", "NS")
        line = c.ask(f"ms {key} 3 F7 c k Oopaque\r\nabc\r\n")
        must(line.split()[0::2], ["HD", f"k{key}"], "ms")
        version = line.split()[1][1:]
        c.want(f"ms {key} 1 ME\r\nx\r\n", "NS")
        c.want(f"ms {key} 1 C{int(version) + 1}\r\nx\r\n", "EX")
        c.want(f"mg {key} s f c t k Oq\r\n", f"HD s3 f7 c{version} t-1 k{key} Oq")
        c.want(f"mg {key} s f T0\r\n", "HD s3 f7")
        c.want(f"mg {key} v c\r\n", f"VA 3 c{version}")
        must(c.value(3), b"abc", "mg v")
        c.want(f"ms {key} 1 MA\r\nd\r\n", "HD")
        c.want(f"ms {key} 1 MP\r\n-\r\n", "HD")
        c.want(f"mg {key} v u\r\n", "VA 5")
        must(c.value(5), b"-abcd", "mg v")
        c.want(f"mg {key} v T-1\r\n", "VA 5")
        must(c.value(5), b"-abcd", "mg T-1")
        c.want(f"mg {key} v\r\n", "EN")
        c.want(f"ma {key} N0 J13 v\r\n", "VA 2")
        must(c.value(2), b"13", "ma N J")
        line = c.ask(f"ma {key} D2 v t T200\r\n")
        must(line in ("VA 2 t199", "VA 2 t200"), True, line)
        must(c.value(2), b"15", "ma D")
        c.want(f"ma {key} MD D20 v\r\n", "VA 1")
        must(c.value(1), b"0", "ma MD")
        version = c.ask(f"mg {key} c\r\n").split()[1][1:]
        c.want(f"md {key} C{int(version) + 1}\r\n", "EX")
        c.want(f"md {key} q C{version}\r\nmn\r\n", "MN")


def refused(*ports):
    """Marks, and what an access field tells, are for the key's own member: others say so."""
    c = [Client(port) for port in ports]
    for key in keys("r", 12):
        must(c[0].put("set", key, b"1"), "STORED", "set")
        own = [client.ask(f"me {key}\r\n")[:3] == "ME " for client in c]
        must(sum(own), 1, f"members that tell of {key}")
        for client, owns in zip(c, own):
            for command in ("mg %s s N100", "mg %s s R1", "mg %s s h", "mg %s s l", "md %s I",
                            "ma %s C1", "ms %s 1 I\r\n2", "ms %s 1 MA C1\r\n2"):
                line = client.ask(command % key + "\r\n")
                says = line.startswith("SERVER_ERROR another member of the fleet has the key")
                must(says, not owns, f"{command % key}: {line}")
            big = "ms %s 100000 I\r\n" % key + "x" * 100000 + "\r\n"
            must(client.ask(big).startswith("SERVER_ERROR another"), not owns, "a long ms with I")


def many(port):
    """All keys of a line are found, in the order in which they were asked for."""
    c = Client(port)
    names = keys("many", 300)
    for i, key in enumerate(names):
        c.send(f"set {key} {i} 0 {i} noreply\r\n" + "v" * i + "\r\n")
    for command in ("get", "gets", "gat 1000", "gats 1000"):
        asked = [name for key in names for name in (key, "no" + key)]
        c.send(f"{command} {' '.join(asked)}\r\n")
        found, last = c.values()
        must(last, "END", command)
        must([(key, flags, value) for key, flags, _, value in found],
             [(key, i, b"v" * i) for i, key in enumerate(names)], command)
    c.send("".join(f"mg {key} k v\r\n" for key in names) + "mn\r\n")
    for i, key in enumerate(names):
        must(c.line(), f"VA {i} k{key}", key)
        must(c.value(i), b"v" * i, key)
    must(c.line(), "MN", "mn")


SIZES = (0, 1, 8191, 8192, 8193, 14335, 14336, 14337, 16384, 65535, 65536, 300000, (1 << 20) - 4096)


def large(port):
    c = Client(port)
    names = keys("large", 6)
    for size in SIZES:
        for key in names:
            value = (key.encode() * (size // len(key) + 1))[:size]
            must(c.put("set", key, value, 4), "STORED", f"set of {size} bytes")
            must(c.get(key), (key, 4, None, value), f"get of {size} bytes")
        c.send("get " + " ".join(names) + "\r\n")
        found, last = c.values()
        must((last, [len(value) for *_, value in found]), ("END", [size] * 6), "get of all")
    for key in names:
        value = b"y" * 100000
        must(c.put("set", key, value), "STORED", key)
        must(c.put("append", key, value), "STORED", key)
        must(c.get(key, "gat 100")[3], value * 2, key)
        must(c.put("add", key, value), "NOT_STORED", key)
        cas = c.get(key, "gets")[2]
        must(c.put("cas", key, value, more=f" {cas}"), "STORED", "a long cas")
        must(c.ask(f"ms {key} 100000 c\r\n".encode() + value + b"\r\n")[:4], "HD c", "a long ms")
        c.want(f"set {key} 0 0 20000\r\n" + "z" * 20003 + "\r\n", "CLIENT_ERROR bad data chunk")
        # What follows is dropped up to the line's end, as an unknown command.
        must(c.line(), "ERROR", "what follows a bad chunk")
        must(len(c.get(key)[3]), 100000, "a bad chunk stores nothing")
        c.want(f"set {key} 0 0 2000000\r\n" + "z" * 2000000 + "\r\n",
               "SERVER_ERROR object too large for cache")
        must(c.get(key), None, "a set that is too large removes the key")


def pipeline(port):
    """Thousands of commands at once are answered in order."""
    c = Client(port)
    names = keys("p", 50)
    for key in names:
        must(c.put("set", key, b"0"), "STORED", key)
    rounds = 40
    text, wanted = [], []
    for i in range(1, rounds + 1):
        for key in names:
            text.append(f"incr {key} 1\r\nget {key}\r\n")
            wanted.append((key, i))
    c.send("".join(text))
    for key, i in wanted:
        must(c.line(), str(i), f"incr {key}")
        found, last = c.values()
        must((found, last), ([(key, 0, None, str(i).encode())], "END"), f"get {key}")


def clients(port):
    """Sessions at the same time: more requests than a worker may have under way."""
    names = keys("many", 300)
    all_of_them = [Client(port) for _ in range(32)]
    for c in all_of_them:
        c.send("get " + " ".join(names) + "\r\n")
    for c in all_of_them:
        found, last = c.values()
        must((last, [key for key, *_ in found]), ("END", names), "get of all")


def fill(port, prefix="f"):
    c = Client(port)
    for key in keys(prefix):
        must(c.put("set", key, b"value"), "STORED", key)


def flush(port):
    c = Client(port)
    fill(port)
    c.want("flush_all 1000\r\n", "OK")
    c.send("get " + " ".join(keys("f")) + "\r\n")
    must(len(c.values()[0]), KEYS, "a flush that is to come removes nothing")
    c.want("flush_all\r\n", "OK")
    c.send("get " + " ".join(keys("f")) + "\r\n")
    must(c.values(), ([], "END"), "after flush_all")
    fill(port)
    c.want("flush_all 1\r\n", "OK")
    end = time.monotonic() + PATIENCE_S
    for key in keys("f"):
        while c.get(key):
            must(time.monotonic() < end, True, f"{key} is flushed later")
            time.sleep(0.05)


def owners(ports, names):
    """The index of the member that has each key."""
    c = [Client(port) for port in ports]
    return {key: [client.ask(f"me {key}\r\n")[:3] == "ME " for client in c].index(True)
            for key in names}


def rights(port):
    """The session's user is checked for keys of all members, those asked for ahead too."""
    c = Client(port)
    for i in range(KEYS):
        must(c.put("set", f"pub:{i}", b"p"), "STORED", "set")
        must(c.put("set", f"sec:{i}", b"s"), "STORED", "set")
        must(c.put("set", f"other:{i}", b"s")[:13], "CLIENT_ERROR ", "set of another prefix")
        must(c.ask(f"delete other:{i}\r\n")[:13], "CLIENT_ERROR ", "delete")
    for _ in range(3):
        c.send("".join(f"get pub:{i}\r\nget sec:{i}\r\nmg pub:{i} v\r\nmg sec:{i} v\r\n"
                       for i in range(KEYS)))
        for i in range(KEYS):
            must(c.values(), ([(f"pub:{i}", 0, None, b"p")], "END"), "get")
            must((c.line()[:13], c.line(), c.value(1)), ("CLIENT_ERROR ", "VA 1", b"p"), "get, mg")
            must(c.line()[:13], "CLIENT_ERROR ", "mg")
    must(c.ask("flush_all\r\n")[:13], "CLIENT_ERROR ", "flush_all")


def of_members(*ports):
    """Prints the keys of f... of all members but the last, then those of the last one."""
    owner = owners(ports, keys("f"))
    for last in (False, True):
        print(" ".join(key for key in keys("f") if (owner[key] == len(ports) - 1) == last))


def found(port, prefix, *numbers):
    c = Client(port)
    for i in numbers:
        must(c.get(f"{prefix}{i}")[3], f"from kvctl {i}".encode(), f"{prefix}{i}")


def one_is_dead(port, *dead):
    """The keys of a member that was killed fail, and only they."""
    c = Client(port)
    for key in keys("f"):
        c.send(f"get {key}\r\n")
        found, last = c.values()
        if key in dead:
            must((found, last[:28]), ([], "SERVER_ERROR member c of the fl"[:28]), key)
        else:
            must((found, last), ([(key, 0, None, b"value")], "END"), key)
    line = c.put("set", dead[0], b"other")
    must(line.startswith("SERVER_ERROR member c of the fleet: "), True, line)
    line = c.put("set", dead[0], b"x" * 100000)
    must(line.startswith("SERVER_ERROR member c of the fleet: "), True, line)
    # An error ends the answer to a line of keys, and the next line is answered as ever.
    alive = [key for key in keys("f") if key not in dead]
    for _ in range(3):
        c.send(f"get {alive[0]} {dead[0]} {' '.join(alive)}\r\nget {' '.join(alive)}\r\n")
        found, last = c.values()
        must(([key for key, *_ in found], last[:12]), (alive[:1], "SERVER_ERROR"), "a line")
        found, last = c.values()
        must(([key for key, *_ in found], last), (alive, "END"), "the line after it")
    line = c.ask("flush_all\r\n")
    must(line.startswith("SERVER_ERROR fleet: "), True, line)


def ask_only(port, key):
    """Asks, and goes away without an answer."""
    for _ in range(20):
        Client(port).send(f"touch {key} 1000\r\n" * 100)


def one_is_stopped(port, key, *others):
    """While a member does not answer, its keys wait, and others' do not; prints "others done"."""
    waits, c = Client(port), Client(port)
    # A GET would be READ without the member's help.
    waits.send(f"touch {key} 1000\r\nget {others[0]}\r\n")
    ask_only(port, key)
    for other in others:
        must(c.get(other), (other, 0, None, b"value"), other)
    print("others done", flush=True)
    must(waits.line(), "TOUCHED", key)
    must(waits.values(), ([(others[0], 0, None, b"value")], "END"), others[0])


def stats(client):
    client.send("stats\r\n")
    lines = iter(client.line, "END")
    return {name: value for _, name, value in (line.split(" ", 2) for line in lines)}


def counted(port):
    now = stats(Client(port))
    must((int(now["forwarded"]) > 1000, now["forward_failed"]), (True, "0"), "counters")


def counts(*ports):
    """Counts in keys of all members until SIGTERM: no answer is wrong, or an error."""
    ends = []
    signal.signal(signal.SIGTERM, lambda *_: ends.append(True))
    all_of_them = [(Client(port), keys(f"count{port}:", 200)) for port in ports]
    rounds = 0
    for c, names in all_of_them:
        for key in names:
            must(c.put("set", key, b"0"), "STORED", key)
    while not ends:
        rounds += 1
        for c, names in all_of_them:
            c.send("".join(f"incr {key} 1\r\n" for key in names) + f"get {' '.join(names)}\r\n")
        for c, names in all_of_them:
            for key in names:
                must(c.line(), str(rounds), f"incr {key}")
            must(c.values(), ([(key, 0, None, str(rounds).encode()) for key in names], "END"),
                 f"values of round {rounds}")
        if rounds == 1:
            print("counting", flush=True)
    print(f"{rounds} rounds")


def times_out(port, key):
    c = Client(port)
    must(c.put("set", key, b"value"),
         "SERVER_ERROR member c of the fleet: timed out; the change may have been made", "set")
    must(stats(c)["forward_failed"], "1", "forward_failed")


def main():
    case, *words = sys.argv[1:]
    globals()[case](*[int(word) if word.isdigit() else word for word in words])


main()
