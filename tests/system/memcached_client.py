#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A client of memcached's protocol for system tests, over TCP or a Unix socket.

Usage: memcached_client.py say ADDRESS TEXT...     sends the text, and quit; prints the answers
       memcached_client.py read ADDRESS            sends nothing; prints what comes
       memcached_client.py cut ADDRESS TEXT...     sends the text and ends the connection
       memcached_client.py hold ADDRESS COUNT      opens connections; says when they are, and each
                                                   that the server has closed
       memcached_client.py listen PATH             serves nobody at a Unix socket until it is
                                                   killed

ADDRESS is /PATH or HOST:PORT. In TEXT \\r, \\n and other escapes of Python stand for their bytes,
and a line ends after each TEXT. MC_UID in the environment: the user to connect as. The status is 0,
or 1 with a text if the connection fails.
"""
import os
import selectors
import signal
import socket
import sys

DEADLINE_S = 300


def connect(address):
    if address.startswith("/"):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(DEADLINE_S)
        sock.connect(address)
        return sock
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), DEADLINE_S)


def bytes_of(texts):
    return b"".join(text.encode().decode("unicode_escape").encode("latin-1") + b"\r\n"
                    for text in texts)


def receive(sock, until=None):
    """What comes until the server closes the connection, or until a line that begins so."""
    got = b""
    while until is None or until not in b"\r\n" + got:
        more = sock.recv(1 << 16)
        if not more:
            break
        got += more
    return got


def show(got):
    sys.stdout.write(got.decode("latin-1").replace("\r\n", "\n"))


def say(address, *texts):
    sock = connect(address)
    sock.sendall(bytes_of([*texts, "quit"]))
    show(receive(sock))


def read(address):
    show(receive(connect(address)))


def cut(address, *texts):
    sock = connect(address)
    sock.sendall(bytes_of(texts)[:-2])
    sock.close()


def hold(address, count):
    waiting = selectors.DefaultSelector()
    for number in range(int(count)):
        sock = connect(address)
        sock.sendall(b"version\r\n")
        if not receive(sock, b"\r\nVERSION ").startswith(b"VERSION "):
            sys.exit(f"connection {number} is not served")
        waiting.register(sock, selectors.EVENT_READ)
    print(f"holding {count}", flush=True)
    closed = 0
    while waiting.get_map():
        for key, _ in waiting.select():
            if key.fileobj.recv(1 << 16):
                sys.exit("the server sent something")
            waiting.unregister(key.fileobj)
            key.fileobj.close()
            closed += 1
            print(f"closed {closed}", flush=True)


def listen(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(path)
    sock.listen()
    print("listening", flush=True)
    signal.pause()


COMMANDS = {"say": say, "read": read, "cut": cut, "hold": hold, "listen": listen}


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    if os.environ.get("MC_UID"):
        os.seteuid(int(os.environ["MC_UID"]))
    try:
        COMMANDS[sys.argv[1]](*sys.argv[2:])
    except OSError as error:
        sys.exit(f"{sys.argv[2]}: {error.strerror}")


main()
