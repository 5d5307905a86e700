#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The clients of memcached_auth.sh: each function is what one check does.

    memcached_auth.py FUNCTION [ARGUMENT...]

The environment has PORT of the server, USERS, its file of users, and KVD_PID.
"""
import os
import select
import signal
import socket
import sys
import time

DEADLINE_S = 300
PORT = int(os.environ["PORT"])
STORED = b"STORED"
FAILURE = b"CLIENT_ERROR authentication failure"
UNAUTHENTICATED = b"CLIENT_ERROR unauthenticated"
LINE_MAX = 2048


class Client:
    def __init__(self, name=None, password=None):
        self.socket = socket.create_connection(("127.0.0.1", PORT), DEADLINE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = b""
        if name:
            is_(self.login(name, password), STORED)

    def send(self, text):
        self.socket.sendall(text)

    def line(self):
        while b"\r\n" not in self.input:
            more = self.socket.recv(65536)
            if not more:
                raise EOFError(f"the server closed after {self.input!r}")
            self.input += more
        line, _, self.input = self.input.partition(b"\r\n")
        return line

    def ask(self, text):
        self.send(text + b"\r\n")
        return self.line()

    def login(self, name, password):
        self.send(login(name, password))
        return self.line()

    def set(self, key, value):
        return self.ask(b"set %s 0 0 %d\r\n%s" % (key, len(value), value))

    def get(self, key):
        line = self.ask(b"get " + key)
        if line == b"END" or not line.startswith(b"VALUE "):
            return line
        value = self.line()
        is_(self.line(), b"END")
        return value

    def connections(self):
        self.send(b"stats conns\r\n")
        lines = list(iter(self.line, b"END"))
        return sum(b":addr " in line for line in lines)

    def is_closed(self):
        try:
            return self.socket.recv(65536) == b""
        except ConnectionResetError:
            return True

    def has_input(self):
        return bool(self.input or select.select([self.socket], [], [], 0)[0])


def login(name, password):
    block = b"%s %s" % (name, password)
    return b"set any 0 0 %d\r\n%s\r\n" % (len(block), block)


def is_(got, wanted):
    if got != wanted:
        raise AssertionError(f"{got!r} instead of {wanted!r}")


def reload(path):
    """Gives the server the file of users at @path, or its configuration anew."""
    if path:
        with open(path, "rb") as new, open(os.environ["USERS"], "wb") as old:
            old.write(new.read())
    os.kill(int(os.environ["KVD_PID"]), signal.SIGHUP)


def until(happens):
    end = time.monotonic() + DEADLINE_S
    while not happens():
        if time.monotonic() > end:
            raise AssertionError("not within the deadline")
        time.sleep(0.01)


def a_set_is_a_set():
    client = Client()
    is_(client.set(b"any", b"writer open sesame"), STORED)
    is_(client.get(b"any"), b"writer open sesame")


def unauthenticated():
    client = Client()
    for text in (b"get app:a", b"version", b"mn", b"mg app:a v", b"stats", b"quit", b"x", b"",
                 b"flush_all", b"set", b"set a 0 0", b"set a 0 0 x", b"set a 0 0 -1",
                 b"shutdown", b"delete app:a", b"get " + b"k" * 2000):
        is_(client.ask(text), UNAUTHENTICATED)
    # Data blocks of other commands are lines.
    is_(client.ask(b"add a 0 0 1\r\nx"), UNAUTHENTICATED)
    is_(client.line(), UNAUTHENTICATED)
    # The same connection may authenticate after all that.
    is_(client.login(b"writer", b"open"), STORED)
    is_(client.get(b"app:a"), b"END")


def malformed():
    client = Client()
    is_(client.ask(b"set a 0 0 6\r\nwriter"), b"CLIENT_ERROR bad authentication token format")
    is_(client.ask(b"set a 0 0 0\r\n"), b"CLIENT_ERROR bad authentication token format")
    is_(client.ask(b"set a 0 0 3\r\nwriter o"), b"CLIENT_ERROR bad command line termination")
    # What follows the block is a line.
    is_(client.line(), UNAUTHENTICATED)
    # Flags and time say nothing, nor does noreply, nor a third word.
    is_(client.ask(b"set a b c 16 noreply\r\nwriter open late"), STORED)


def too_long():
    client = Client()
    client.send(b"x" * (LINE_MAX - 1))
    is_(client.ask(b""), UNAUTHENTICATED)
    client.send(b"get " + b"x" * (LINE_MAX - 3))
    is_(client.is_closed(), True)
    client = Client()
    is_(client.login(b"writer", b"x" * (LINE_MAX - 7)), FAILURE)
    is_(client.login(b"w" * (LINE_MAX - 5), b"open"), FAILURE)
    is_(client.ask(b"set a 0 0 %d" % (LINE_MAX + 1)),
        b"CLIENT_ERROR authentication token is too long")
    is_(client.is_closed(), True)


def wrong_then_right():
    client = Client()
    for name, password in ((b"writer", b"opeN"), (b"writer", b"openx"), (b"writer", b"ope"),
                           (b"reader", b"open"), (b"ops", b"open"), (b"*", b"open"),
                           (b"(unauthenticated)", b"open"), (b"nobody", b"open")):
        is_(client.login(name, password), FAILURE)
    is_(client.ask(b"get app:a"), UNAUTHENTICATED)
    is_(client.login(b"writer", b"open"), STORED)
    is_(client.set(b"app:right", b"1"), STORED)
    # From now on a set is a set.
    is_(client.set(b"app:login", b"writer open"), STORED)


def in_pieces():
    client = Client()
    for byte in login(b"reader", b"password"):
        client.send(bytes([byte]))
    is_(client.line(), STORED)
    is_(client.get(b"app:right"), b"1")


def pipelined():
    client = Client()
    client.send(login(b"writer", b"oops") + b"get x\r\n" + login(b"writer", b"open") +
                b"set app:p 0 0 5\r\nvalue\r\nget app:p\r\nmn\r\n" * 200)
    is_(client.line(), FAILURE)
    is_(client.line(), UNAUTHENTICATED)
    is_(client.line(), STORED)
    for _ in range(200):
        for wanted in (STORED, b"VALUE app:p 0 5", b"value", b"END", b"MN"):
            is_(client.line(), wanted)


def rights():
    writer, reader = Client(b"writer", b"open"), Client(b"reader", b"password")
    is_(writer.set(b"app:a", b"1"), STORED)
    is_(writer.get(b"app:a"), b"1")
    is_(writer.set(b"other", b"1")[:40], b"CLIENT_ERROR user writer may not change ")
    is_(writer.ask(b"delete app:a"), b"CLIENT_ERROR user writer has no right 'delete'")
    is_(reader.get(b"app:a"), b"1")
    is_(reader.set(b"app:a", b"2"), b"CLIENT_ERROR user reader has no right 'write'")
    is_(writer.ask(b"stats conns"), b"CLIENT_ERROR user writer has no right 'stats'")
    lodger, other = Client(b"lodger", b"room"), Client(b"lodger", b"room")
    # Without the right admin a user sees itself alone, and changes nothing for others.
    is_(reader.connections(), 1)
    is_(reader.ask(b"stats reset")[:13], b"CLIENT_ERROR ")
    is_(lodger.connections() >= 2, True)
    is_(lodger.ask(b"stats reset"), b"RESET")
    is_(other.get(b"app:none"), b"END")


def tenants():
    writer, lodger = Client(b"writer", b"open"), Client(b"lodger", b"room")
    is_(lodger.get(b"app:a"), b"END")
    is_(lodger.set(b"app:a", b"mine"), STORED)
    is_(writer.set(b"app:a", b"1"), STORED)
    is_(lodger.get(b"app:a"), b"mine")
    is_(writer.get(b"app:a"), b"1")
    for _ in range(20):
        other = Client(b"lodger", b"room")
        is_(other.get(b"app:a"), b"mine")
        other.socket.close()


def resized(path):
    """Connections end before their tenant is made anew, with its items in it."""
    lodgers, writer = [Client(b"lodger", b"room") for _ in range(3)], Client(b"writer", b"open")
    is_(lodgers[0].set(b"app:a", b"mine"), STORED)
    is_(writer.set(b"app:a", b"1"), STORED)
    reload(path)
    for lodger in lodgers:
        is_(lodger.is_closed(), True)
    is_(writer.get(b"app:a"), b"1")
    waiting = Client()
    until(lambda: not waiting.login(b"lodger", b"room").startswith(b"SERVER_ERROR the tenant"))
    is_(waiting.get(b"app:a"), b"mine")


def in_memory(text):
    """How often the server has @text in its memory."""
    count = 0
    pid = os.environ["KVD_PID"]
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, \
            open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            fields = line.split()
            begin, end = (int(word, 16) for word in fields[0].split("-"))
            if not fields[1].startswith("rw"):
                continue
            memory.seek(begin)
            count += memory.read(end - begin).count(text)
    return count


def forgets(path):
    """No password is in its memory when it has been answered, or its client has gone."""
    word = b"C0rundum-and-%s" % b"beryl"
    reload(path)
    client = Client()
    until(lambda: client.login(b"writer", word) == STORED)
    is_(client.set(b"app:a", b"Such-a-value-is-there"), STORED)
    ends, waits = Client(), Client()
    for byte in login(b"reader", word) + b"get ":
        waits.send(bytes([byte]))
    is_(waits.line(), FAILURE)
    waits.send(b"x\r\n" + login(b"writer", word)[:-1])
    is_(waits.line(), UNAUTHENTICATED)
    ends.send(login(b"writer", word)[:-1])
    ends.socket.close()
    waits.send(b"\n" + b"get app:a\r\n" * 10)
    is_(waits.line(), STORED)
    is_(waits.line(), b"VALUE app:a 0 21")
    until(lambda: in_memory(word[:-5]) == 0)
    is_(in_memory(b"Such-a-value-is-there") > 0, True)


def connections():
    """Of a user that may have two, which are two whose client has authenticated."""
    first, second, third = Client(b"twice", b"open"), Client(b"twice", b"open"), Client()
    is_(third.login(b"twice", b"open"),
        b"SERVER_ERROR user twice is at its limit of connections (2)")
    is_(third.ask(b"get a"), UNAUTHENTICATED)
    first.socket.close()
    until(lambda: third.login(b"twice", b"open") == STORED)
    is_(second.get(b"none"), b"END")


def statistics(commands, errors):
    client = Client(b"reader", b"password")
    got = {}
    line = client.ask(b"stats")
    while line != b"END":
        got[line.split()[1]] = line.split()[2]
        line = client.line()
    is_((got[b"auth_cmds"], got[b"auth_errors"]), (commands.encode(), errors.encode()))
    line = client.ask(b"stats settings")
    while not line.startswith(b"STAT auth_enabled_ascii "):
        line = client.line()
    is_(line.split()[2], os.environ["USERS"].encode())


def others_go_on():
    """While no password can be checked, since the thread for that is stopped."""
    writers = [Client(b"writer", b"open") for _ in range(4)]
    wrong = [Client() for _ in range(3)]
    right, closed, waits = Client(), Client(), Client()
    print("connected", flush=True)
    sys.stdin.readline()
    for client in wrong:
        client.send(login(b"writer", b"wrong"))
    right.send(login(b"reader", b"password") + b"get app:a\r\n")
    closed.send(login(b"reader", b"password"))
    waits.send(login(b"nobody", b"password"))
    for number in range(500):
        for client in writers:
            is_(client.set(b"app:a", b"%d" % number), STORED)
            is_(client.get(b"app:a"), b"%d" % number)
    is_(any(client.has_input() for client in wrong + [right, closed, waits]), False)
    closed.socket.close()
    print("all went on", flush=True)
    sys.stdin.readline()
    is_(right.line(), STORED)
    is_(right.line(), b"VALUE app:a 0 3")
    for client in wrong + [waits]:
        is_(client.line(), FAILURE)
        is_(client.ask(b"get app:a"), UNAUTHENTICATED)


def idle():
    """Sessions that wait for the server are not idle, and hold up none that are."""
    Client(b"reader", b"password")
    print("connected", flush=True)
    sys.stdin.readline()
    waits = [Client() for _ in range(2)]
    for client in waits:
        client.send(login(b"reader", b"password"))
    for client in [Client() for _ in range(4)]:
        is_(client.is_closed(), True)
    for client in [Client() for _ in range(4)]:
        is_(client.ask(b"get a"), UNAUTHENTICATED)
    is_(any(client.has_input() for client in waits), False)
    print("idle ones were closed", flush=True)
    sys.stdin.readline()
    for client in waits:
        is_(client.line(), STORED)


def closes(path, *names):
    """The file at @path closes the sessions of @names of the users, and no other."""
    passwords = {"writer": b"open", "reader": b"password", "lodger": b"room"}
    clients = {name: Client(name.encode(), word) for name, word in passwords.items()}
    locked = Client()
    reload(path)
    for name in names:
        is_(clients.pop(name).is_closed(), True)
    for client in clients.values():
        is_(client.get(b"none"), b"END")
    is_(locked.ask(b"get none"), UNAUTHENTICATED)
    for name, word in passwords.items():
        is_(Client().login(name.encode(), word), FAILURE if name in names else STORED)


def right_is_lost(path):
    writer, reader = Client(b"writer", b"open"), Client(b"reader", b"password")
    is_(writer.set(b"app:a", b"1"), STORED)
    reload(path)
    until(lambda: writer.set(b"app:a", b"1") != STORED)
    is_(writer.set(b"app:a", b"1"), b"CLIENT_ERROR user writer has no right 'write'")
    is_(reader.get(b"app:a"), b"1")


def no_passwords(path=None):
    reader, locked = Client(b"reader", b"password"), Client()
    reload(path)
    is_(reader.is_closed(), True)
    is_(locked.is_closed(), True)
    client = Client()
    is_(client.set(b"any", b"reader password"), STORED)


def passwords_again(path=None):
    client = Client()
    is_(client.set(b"any", b"1"), STORED)
    reload(path)
    is_(client.is_closed(), True)
    is_(Client().ask(b"get any"), UNAUTHENTICATED)
    is_(Client(b"reader", b"password").get(b"any"), b"1")


def timeout():
    """Of a short server.handshake_timeout, within which this client may not come so far."""
    readers = []

    def comes():
        try:
            readers.append(Client(b"reader", b"password"))
        except EOFError:
            pass
        return readers

    until(comes)
    silent, talks, guesses = Client(), Client(), Client()
    talks.send(b"get a\r\nset a 0 0 100\r\n")
    guesses.send(login(b"reader", b"wrong") * 1000)
    for client in (silent, talks, guesses):
        while not client.is_closed():
            pass
    is_(readers[0].get(b"any"), b"END")


def stays():
    """Until the server stops: with a login under way, too."""
    clients = [Client(b"reader", b"password"), Client(), Client()]
    clients[1].send(login(b"reader", b"wrong") * 10)
    clients[2].send(login(b"reader", b"wrong") * 10)
    print("waits", flush=True)
    for client in clients:
        while not client.is_closed():
            pass


def main():
    globals()[sys.argv[1]](*sys.argv[2:])


main()
