#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients of memcached for Python that many programs use, unmodified, against kvd.

Usage: memcached_clients.py pymemcache|pylibmc PORT

The status is 0, or 1 with what was not as with memcached.
"""
import sys

LARGE = b"x" * 900000


def need(got, wanted, what):
    if got != wanted:
        sys.exit(f"{what}: {got!r} instead of {wanted!r}")


def pymemcache(port):
    from pymemcache.client.base import Client
    client = Client(("127.0.0.1", port), default_noreply=False)
    need(client.set("key", "one"), True, "set")
    need(client.add("key", "two"), False, "add")
    value, unique = client.gets("key")
    need(value, b"one", "gets")
    need(client.cas("key", "three", unique), True, "cas")
    need(client.cas("key", "four", unique), False, "cas of an old version")
    need(client.append("key", "!") and client.prepend("key", "!"), True, "append, prepend")
    need(client.get_many(["key", "none"]), {"key": b"!three!"}, "get_many")
    need(client.set_many({"a": "5", "b": LARGE}), [], "set_many")
    need((client.incr("a", 3), client.decr("a", 9)), (8, 0), "incr, decr")
    need(client.get("b"), LARGE, "a large value")
    need((client.touch("a", 100), client.delete("a"), client.delete("a")), (True, True, False),
         "touch, delete")
    need(client.replace("none", "x"), False, "replace")
    need(client.stats()[b"curr_items"], 2, "stats")
    need((client.flush_all(), client.get("key")), (True, None), "flush_all")


def pylibmc(port):
    import pylibmc as library
    client = library.Client([f"127.0.0.1:{port}"], behaviors={"cas": True, "tcp_nodelay": True})
    need(client.set("key", {"a": 1}), True, "set")
    value, unique = client.gets("key")
    need((value, client.cas("key", [2], unique)), ({"a": 1}, True), "gets, cas")
    need(client.set_multi({"n": 1, "s": "t", "large": LARGE}), [], "set_multi")
    need(client.get_multi(["key", "n", "none"]), {"key": [2], "n": 1}, "get_multi")
    need((client.incr("n"), client.decr("n")), (2, 1), "incr, decr")
    need((client.append("s", "u"), client.prepend("s", "r"), client.get("s")),
         (True, True, "rtu"), "append, prepend")
    need(client.get("large"), LARGE, "a large value")
    need((client.add("n", 3), client.replace("n", 4), client.delete("n")), (False, True, True),
         "add, replace, delete")
    need(len(client.get_stats()), 1, "get_stats")
    need((client.flush_all(), client.get("key")), (True, None), "flush_all")


if __name__ == "__main__":
    globals()[sys.argv[1]](int(sys.argv[2]))
