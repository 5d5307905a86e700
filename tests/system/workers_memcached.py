#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients of memcached's protocol that connect again when the server ends their connection.

Usage: workers_memcached.py PORT CLIENTS FILE

Each client stores values under keys of its own and gets them, until the folder has FILE. A command
without an answer, when a connection ends, is sent again on a new one. An answer that is cut, or not
what the client stored last, ends the program with status 1. Prints how many connections ended.
"""
import os
import socket
import sys
import threading

KEYS = 20
LARGE = 300000
STEPS = 20  # on a connection, so that new workers get some
failures = []
ended = [0]


class Lost(Exception):
    pass


class Client:
    def __init__(self, port, number):
        self.port, self.number, self.socket, self.input = port, number, None, b""

    def read_to(self, length, within):
        """Receives until `within` has at least `length` bytes. A cut answer is an error."""
        while len(self.input) < length:
            more = self.socket.recv(1 << 16)
            if not more:
                if within:
                    raise ValueError(f"an answer is cut: {self.input[:80]!r}")
                raise Lost
            self.input += more

    def read_line(self):
        while b"\r\n" not in self.input:
            self.read_to(len(self.input) + 1, self.input)
        line, self.input = self.input.split(b"\r\n", 1)
        return line

    def answer(self):
        line = self.read_line()
        if not line.startswith(b"VALUE "):
            return line
        length = int(line.split()[3])
        self.read_to(length + 7, True)
        value, rest = self.input[:length], self.input[length:]
        if not rest.startswith(b"\r\nEND\r\n"):
            raise ValueError(f"a value is cut: {rest[:80]!r}")
        self.input = rest[7:]
        return value

    def ask(self, command):
        while True:
            try:
                if not self.socket:
                    self.input = b""
                    self.socket = socket.create_connection(("127.0.0.1", self.port))
                self.socket.sendall(command)
                return self.answer()
            except (Lost, ConnectionResetError, BrokenPipeError):
                self.socket.close()
                self.socket = None
                ended[0] += 1

    def step(self, i):
        key = b"mc%d-%d" % (self.number, i % KEYS)
        value = b"%d-%d " % (self.number, i) * (LARGE // 8 if i % 50 == 49 else 1 + i % 20)
        command = b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value)
        said = self.ask(command)
        if said != b"STORED":
            raise ValueError(f"set: {said!r}")
        got = self.ask(b"get " + key + b"\r\n")
        if got != value:
            raise ValueError(f"get {key!r}: {got[:80]!r} instead of {value[:80]!r}")

    def run(self, stop):
        i = 0
        try:
            while not os.path.exists(stop) and not failures:
                self.step(i)
                i += 1
                if i % STEPS == 0:
                    self.socket.close()
                    self.socket = None
        except (ValueError, OSError) as error:
            failures.append(f"client {self.number}: {error}")


def main(port, count, stop):
    clients = [Client(port, number) for number in range(count)]
    threads = [threading.Thread(target=client.run, args=(stop,)) for client in clients]
    for thread in threads:
        thread.start()
    print("running", flush=True)
    for thread in threads:
        thread.join()
    print(f"connections that ended {ended[0]}")
    sys.exit("\n".join(failures) if failures else 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
