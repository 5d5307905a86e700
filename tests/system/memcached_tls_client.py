#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A client of memcached's protocol over TLS for system tests.

Usage: memcached_tls_client.py COMMAND HOST:PORT [ARGUMENT...]

say TEXT...	sends the text, and quit; prints the answers, and whether the server has ended TLS
plain		says it without TLS
values		stores and gets values of many sizes
slow		takes large values slowly, a few bytes at first
pieces		sends each byte of commands in a record of its own, then as many as fit one record
pipeline	sends thousands of commands, and takes the answers meanwhile
many COUNT	as many connections at once, each with commands
hold COUNT	opens connections; says when they are, answers each line of the input by a get on
		all of them, and says which the server has closed
stuck COUNT	begins as many handshakes, and ends none; says when the server has closed all
cut TEXT	sends the text and ends the connection without ending TLS
keys		asks for new keys of TLS now and then, by openssl

MC_CA, MC_CERTIFICATE and MC_KEY in the environment name files. The status is 0, or 1 with a text.
"""
import asyncio
import os
import random
import selectors
import socket
import ssl
import struct
import subprocess
import sys

DEADLINE_S = 300
RECORD = 16384


def address_of(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


def context():
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # An end without close_notify is an error.
    made.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    made.load_verify_locations(os.environ["MC_CA"])
    if os.environ.get("MC_CERTIFICATE"):
        made.load_cert_chain(os.environ["MC_CERTIFICATE"], os.environ["MC_KEY"])
    return made


def is_end(error):
    """Whether TCP has ended, and TLS has not."""
    return isinstance(error, ssl.SSLEOFError) or "UNEXPECTED_EOF" in (error.reason or "")


def connect(address, window=0):
    plain = socket.socket()
    plain.settimeout(DEADLINE_S)
    if window:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    plain.connect(address_of(address))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return context().wrap_socket(plain, server_hostname=address_of(address)[0],
                                 suppress_ragged_eofs=False)


def bytes_of(texts):
    return b"".join(text.encode().decode("unicode_escape").encode("latin-1") + b"\r\n"
                    for text in texts)


class Reader:
    def __init__(self, sock):
        self.sock, self.got = sock, bytearray()

    def more(self):
        part = self.sock.recv(1 << 18)
        if not part:
            sys.exit("the server has closed the connection")
        self.got += part

    def take(self, length):
        while len(self.got) < length:
            self.more()
        taken = bytes(self.got[:length])
        del self.got[:length]
        return taken

    def line(self):
        while b"\r\n" not in self.got:
            self.more()
        return self.take(self.got.index(b"\r\n") + 2)[:-2]

    def expect(self, line):
        got = self.line()
        if got != line:
            sys.exit(f"{got[:100]} instead of {line[:100]}")

    def expect_value(self, key, value):
        self.expect(b"VALUE %s 0 %d" % (key, len(value)))
        if self.take(len(value)) != value:
            sys.exit(f"another value of {len(value)} bytes")
        self.expect(b"")
        self.expect(b"END")


def say(address, *texts):
    sock = connect(address)
    sock.sendall(bytes_of([*texts, "quit"]))
    got = b""
    ended = "ended"
    try:
        while part := sock.recv(1 << 16):
            got += part
    except ssl.SSLError as error:
        if not is_end(error):
            raise
        ended = "not ended"
    sys.stdout.write(got.decode("latin-1").replace("\r\n", "\n") + f"TLS {ended}\n")


def plain(address):
    with socket.create_connection(address_of(address), DEADLINE_S) as sock:
        sock.sendall(b"version\r\n")
        try:
            got = sock.recv(1 << 16)
        except ConnectionResetError:
            got = b""
    sys.exit("it was answered" if got else 0)


def set_of(key, value):
    return b"set %s 0 0 %d\r\n%s\r\n" % (key, len(value), value)


async def exchange_of(address, sent, wanted):
    host, port = address_of(address)
    reader, writer = await asyncio.open_connection(host, port, ssl=context())
    # One thread sends and receives: two at once may not use a connection of OpenSSL's.
    writer.write(sent + b"quit\r\n")
    if await reader.read(-1) != wanted:
        sys.exit("other answers")
    writer.close()


def exchange(address, sent, wanted):
    asyncio.run(asyncio.wait_for(exchange_of(address, sent, wanted), DEADLINE_S))



def values(address):
    sock = connect(address)
    reader = Reader(sock)
    sizes = [0, 1, 1000, RECORD - 40, RECORD - 1, RECORD, RECORD + 1, 3 * RECORD, 65000, 70000,
             (1 << 20) - 1, 1 << 20]
    made = {b"size%d" % size: random.randbytes(size) for size in sizes}
    for key, value in made.items():
        sock.sendall(set_of(key, value))
        reader.expect(b"STORED")
        sock.sendall(b"get %s\r\n" % key)
        reader.expect_value(key, value)
    # All at once, from an input that ends within records.
    exchange(address, b"".join(set_of(key, value) + b"get %s\r\n" % key
                               for key, value in made.items()),
             b"".join(b"STORED\r\nVALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(value), value)
                      for key, value in made.items()))


def slow(address):
    sock = connect(address, window=4096)
    reader = Reader(sock)
    value = random.randbytes(1 << 20)
    sock.sendall(set_of(b"slow", value))
    reader.expect(b"STORED")
    middle = random.randbytes(40000)
    sock.sendall(set_of(b"middle", middle))
    reader.expect(b"STORED")
    sock.sendall(b"get slow\r\nget middle\r\nget middle\r\nget slow\r\n" * 3)
    for _ in range(100):
        reader.got += sock.recv(7)
    for _ in range(3):
        reader.expect_value(b"slow", value)
        reader.expect_value(b"middle", middle)
        reader.expect_value(b"middle", middle)
        reader.expect_value(b"slow", value)


def pieces(address):
    sock = connect(address)
    reader = Reader(sock)
    for byte in set_of(b"pieces", b"x" * 300) + b"get pieces\r\nget pieces\r\n":
        sock.send(bytes([byte]))
    reader.expect(b"STORED")
    reader.expect_value(b"pieces", b"x" * 300)
    reader.expect_value(b"pieces", b"x" * 300)
    # A whole record while a part of a command waits: not all of it fits the worker's input, and
    # nothing more arrives.
    first, second = set_of(b"pieces", b"y" * 9000), set_of(b"pieces", b"z" * 8000)
    sock.sendall(b"get none\r\n" + first[:5000])
    reader.expect(b"END")
    rest = first[5000:] + second
    gets = (RECORD - len(rest)) // len(b"get none\r\n")
    sock.sendall(rest + b"get none\r\n" * gets)
    reader.expect(b"STORED")
    reader.expect(b"STORED")
    for _ in range(gets):
        reader.expect(b"END")


def pipeline(address):
    count = 5000
    # Values of a good part of a record: the worker's input ends within one again and again.
    bulk = [random.randbytes(random.randrange(9000)) for _ in range(20)]
    sent, wanted = [], []
    for i in range(count):
        number = i // 10 * 10 % 20
        if i % 10 == 0:
            sent.append(set_of(b"p%d" % number, bulk[number]))
            wanted.append(b"STORED\r\n")
        else:
            sent.append(b"get p%d\r\n" % number)
            wanted.append(b"VALUE p%d 0 %d\r\n%s\r\nEND\r\n" % (number, len(bulk[number]),
                                                              bulk[number]))
    exchange(address, b"".join(sent), b"".join(wanted))


async def many_of(address, number, made):
    host, port = address_of(address)
    key, value = b"many%d" % number, random.randbytes(1000 + number)
    reader, writer = await asyncio.open_connection(host, port, ssl=made)
    for _ in range(3):
        writer.write(set_of(key, value) + b"get %s\r\n" % key)
        want = b"STORED\r\nVALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(value), value)
        if await reader.readexactly(len(want)) != want:
            sys.exit("another answer")
    writer.close()


async def many_at_once(address, count):
    made = context()
    await asyncio.gather(*(many_of(address, i, made) for i in range(count)))


def many(address, count):
    asyncio.run(asyncio.wait_for(many_at_once(address, int(count)), DEADLINE_S))


def hold(address, count):
    socks = [connect(address) for _ in range(int(count))]
    waiting = selectors.DefaultSelector()
    for sock in socks:
        sock.sendall(b"version\r\n")
        if not Reader(sock).line().startswith(b"VERSION "):
            sys.exit("no version")
        waiting.register(sock, selectors.EVENT_READ)
    waiting.register(sys.stdin, selectors.EVENT_READ)
    print(f"holding {count}", flush=True)
    closed = 0
    while closed < len(socks):
        for key, _ in waiting.select():
            if key.fileobj is sys.stdin:
                sys.stdin.readline()
                for sock in socks:
                    sock.sendall(b"get none\r\n")
                    Reader(sock).expect(b"END")
                print("answered", flush=True)
                continue
            try:
                if key.fileobj.recv(1 << 16):
                    sys.exit("the server sent something")
            except ssl.SSLError as error:
                # The control thread closes it without more ado.
                if not is_end(error):
                    raise
            waiting.unregister(key.fileobj)
            closed += 1
            print(f"closed {closed}", flush=True)


def hello_of_client(address):
    """The first bytes of a handshake."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context().wrap_bio(into, out, server_hostname=address_of(address)[0]).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return out.read()


def stuck(address, count):
    hello = hello_of_client(address)
    socks = []
    for i in range(int(count)):
        sock = socket.create_connection(address_of(address), DEADLINE_S)
        # Silent, within the first message, or after it.
        sock.sendall((b"", hello[:100], hello)[i % 3])
        socks.append(sock)
    print(f"stuck {count}", flush=True)
    for sock in socks:
        try:
            while sock.recv(1 << 16):
                pass
        except ConnectionResetError:
            pass
    print("all are closed", flush=True)


def cut(address, text):
    sock = connect(address)
    sock.sendall(bytes_of([text])[:-2])
    # A reset, without close_notify.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    os.close(sock.detach())


def keys(address):
    command = ["openssl", "s_client", "-connect", address, "-CAfile", os.environ["MC_CA"],
               "-cert", os.environ["MC_CERTIFICATE"], "-key", os.environ["MC_KEY"]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as client:
        def until(what):
            while line := client.stdout.readline():
                if what in line:
                    return
            sys.exit(f"no {what}")

        def write(text):
            client.stdin.write(text)
            client.stdin.flush()

        until(b"Verify return code: 0")
        for i in range(20):
            # K: both ends change their keys; k: the client does.
            write(b"K\n" if i % 2 else b"k\n")
            until(b"KEYUPDATE")
            write(b"set keys 0 0 1\r\n%d\r\n" % (i % 10))
            until(b"STORED")
            write(b"get keys\r\n")
            until(b"%d\r\n" % (i % 10))
            until(b"END")
        write(b"quit\r\n")


def main():
    commands = {"say": say, "plain": plain, "values": values, "slow": slow, "pieces": pieces,
                "pipeline": pipeline, "many": many, "hold": hold, "stuck": stuck, "cut": cut,
                "keys": keys}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    try:
        commands[sys.argv[1]](*sys.argv[2:])
    except (OSError, asyncio.TimeoutError) as error:
        sys.exit(f"{sys.argv[2]}: {error}")


main()
