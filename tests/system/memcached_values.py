#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks values that clients of memcached's protocol send and receive in many pieces.

Usage: memcached_values.py sizes PORT           stores and reads values of many sizes, in many ways
       memcached_values.py versions PORT BYTES  readers that are slow get each value as one writer
                                                stored it, while others replace and delete it
       memcached_values.py stall PORT BYTES     senders and receivers that stop do not keep others
                                                from storing and reading values for ever
       memcached_values.py marks PORT           each stale item is given to one client to renew

The status is 0, or 1 with what was wrong.
"""
import random
import socket
import sys
import threading

DEADLINE_S = 300
PIECE = 1000


class Client:
    def __init__(self, port, receive_bytes=None):
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(DEADLINE_S)
        self.socket.connect(("127.0.0.1", int(port)))
        self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data)

    def line(self):
        return self.file.readline().decode("latin-1").rstrip("\r\n")

    def ask(self, text, data=None):
        self.send(text.encode() + b"\r\n" + (data + b"\r\n" if data is not None else b""))
        return self.line()

    def set(self, key, value, command="set"):
        return self.ask(f"{command} {key} 7 0 {len(value)}", value)

    def get(self, key):
        """The value, or None."""
        head = self.ask(f"get {key}")
        if head == "END":
            return None
        value = self.file.read(int(head.split()[3]))
        assert (self.line(), self.line()) == ("", "END"), "what follows the value"
        return value


def need(good, what):
    if not good:
        sys.exit(what)


def sizes(port):
    client = Client(port)
    # Around the sizes at which the server goes another way: its buffers, a step, large items.
    around = [16384 - 2049, 16384, 32768, 65536, 3 * 65536, 1 << 20]
    for size in [0, 1] + [size + more for size in around for more in (-40, -2, -1, 0, 1, 40)]:
        value = random.randbytes(size)
        need(client.set("key", value) == "STORED", f"set of {size} bytes")
        need(client.get("key") == value, f"get of {size} bytes")
    first, more = random.randbytes(50000), random.randbytes(70000)
    client.set("key", first)
    need(client.set("key", more, "append") == "STORED", "append")
    need(client.set("key", more, "prepend") == "STORED", "prepend")
    need(client.get("key") == more + first + more, "the value that was extended at both ends")
    # The data block comes byte by byte, at its end; others follow in the same packet.
    client.send(b"set key 0 0 100000\r\n" + bytes(99998))
    for byte in b"\0\0\r":
        client.send(bytes([byte]))
    client.send(b"\nget key none\r\nset key 0 0 1\r\nx\r\nget key\r\n")
    need(client.line() == "STORED", "a set in pieces")
    need(client.line() == "VALUE key 0 100000", "its value")
    need(client.file.read(100000) == bytes(100000) and client.line() == "", "its bytes")
    need([client.line() for _ in range(5)] == ["END", "STORED", "VALUE key 0 1", "x", "END"],
         "what follows it")
    # Nothing ends the data block: it is not stored, and the next line is a command again.
    client.send(b"set key 0 0 100000\r\n" + bytes(100000) + b"xxget key\r\n")
    need(client.line() == "CLIENT_ERROR bad data chunk", "a block without an end")
    need([client.line() for _ in range(3)] == ["VALUE key 0 1", "x", "END"], "the old value")
    # A value whose time is over is not stored, and its block is not taken for commands.
    client.send(b"set key 0 -1 100000\r\n" + bytes(100000) + b"\r\nget key\r\n")
    need([client.line(), client.line()] == ["STORED", "END"], "a value that has expired")
    need(client.ask("ms key 100000 I T30 c Oabc", bytes(100000)).startswith("HD c"), "ms")
    need(client.ask("mg key s Oabc") == "HD s100000 Oabc", "mg")
    # Appends to a large value take several turns; the key is one that the server has decoded.
    need(client.ask("ms a2V5 200000 b", bytes(200000)) == "HD", "ms with b")
    for _ in range(8):
        need(client.ask("ms a2V5 3 b MA", b"end") == "HD", "an append with b")
    need(client.get("key") == bytes(200000) + 8 * b"end", "the value that was extended")


def versions(port, size):
    size = int(size)
    done = threading.Event()
    wrong = []
    counts = {"values": 0}

    def write(seed):
        client, choose = Client(port), random.Random(seed)
        while not done.is_set():
            key = f"v{choose.randrange(4)}"
            if not choose.randrange(8):
                client.ask(f"delete {key}")
                continue
            value = bytes([choose.randrange(256)]) * (size + choose.randrange(PIECE))
            if client.set(key, value) != "STORED":
                wrong.append("a set was refused")

    def read(seed):
        client, choose = Client(port, 1 << 16), random.Random(seed)
        for _ in range(60):
            client.send(f"get v{choose.randrange(4)} v{choose.randrange(4)}\r\n".encode())
            while (head := client.line()) != "END":
                left = int(head.split()[3])
                pieces = []
                # A part, then a pause in which others replace the value.
                for part in (PIECE, left - PIECE):
                    pieces.append(client.file.read(part))
                    done.wait(choose.random() / 200)
                value = b"".join(pieces)
                counts["values"] += 1
                if value.count(value[:1]) != left or client.line() != "":
                    wrong.append(f"a value of {left} bytes is not that of one writer")

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(3)]
    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(100, 106)]
    for thread in writers + readers:
        thread.start()
    for thread in readers:
        thread.join()
    done.set()
    for thread in writers:
        thread.join()
    need(not wrong, "; ".join(wrong[:3]))
    need(counts["values"] > 100, f"only {counts['values']} values were read")


def stall(port, size):
    size = int(size)
    value = random.randbytes(size)
    good = Client(port)
    need(good.set("big", value) == "STORED", "the value that all ask for")
    # Clients that hold all memory there is for values that arrive, and for those that go out.
    senders = [Client(port) for _ in range(8)]
    for number, client in enumerate(senders):
        client.send(f"set s{number} 0 0 {size}\r\n".encode() + value[:size // 2])
    takers = [Client(port, 1 << 12) for _ in range(8)]
    for client in takers:
        client.send(b"get big\r\n")
    need(good.set("other", value) == "STORED", "a set beside senders that stopped")
    need(good.get("big") == value, "a get beside receivers that stopped")
    # A sender that stopped was closed, and nothing of its value is there.
    need(senders[0].line() == "", "a sender that stopped got an answer")
    need(good.get("s0") is None, "a half value was stored")


def marks(port):
    client = Client(port)
    client.set("key", b"old")
    need(client.ask("md key I T60") == "HD", "md I")
    winners = []

    def ask():
        other = Client(port)
        head = other.ask("mg key v")
        other.line()
        if head.endswith(" W"):
            winners.append(head)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    need(winners == ["VA 3 X W"], f"those who may renew the item: {winners}")
    need(client.ask("mg key v") == "VA 3 Z X", "a stale item that is being renewed")
    client.line()
    need(client.ask("ms key 3", b"new") == "HD" and client.ask("mg key s") == "HD s3",
         "an item that was renewed")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
