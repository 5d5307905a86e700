# SPDX-License-Identifier: MIT
"""kvd.ClientPool: how many clients it opens, who waits, and what it keeps."""

import contextlib
import os
import signal
import threading
import time

import kvd
import pytest

URL = "softnic:///fake"
DEADLINE_S = 300


def opened(fake):
    return len(fake.named("kvd_open"))


def test_lends_again(fake):
    with kvd.ClientPool(URL, size=2, tenant="a") as pool:
        assert opened(fake) == 1 and pool.url == URL and pool.size == 2
        with pool.client() as one:
            assert one.set("k", "v") and one._options["tenant"] == "a"
        with pool.client() as again:
            assert again is one
            with pool.client() as other:
                assert other is not one and other.get("k") == b"v" and opened(fake) == 2
        with pool.client() as last:
            assert last is one and opened(fake) == 2
        with pytest.raises(ZeroDivisionError), pool.client():
            1 // 0
        with pool.client(), pool.client():
            pass
    assert one.closed and other.closed


def test_all_in_use(fake):
    with kvd.ClientPool(URL, size=1, wait_ms=1) as pool, pool.client():
        with pytest.raises(kvd.TimedOutError, match="all 1 clients.* 1 ms"), pool.client():
            pass
        pool.close()
        with pytest.raises(kvd.InvalidError, match="closed"), pool.client():
            pass


def test_threads_wait(fake):
    """More threads than clients: each gets one, and no client has two threads."""
    wrong, done = [], []

    def work(pool, using):
        for _ in range(20):
            with pool.client() as store:
                if store in using:
                    wrong.append(store)
                using.add(store)
                os.sched_yield()
                using.discard(store)
        done.append(1)

    with kvd.ClientPool(URL, size=2, wait_ms=DEADLINE_S * 1000) as pool:
        using = set()
        threads = [threading.Thread(target=work, args=(pool, using)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        assert len(done) == 6 and not wrong and opened(fake) <= 2


@contextlib.contextmanager
def waiting(pool, work, count=1):
    """Another thread does @work, and is the last of @count that wait for a client: for longer than
    the deadline of this, so it ends in time only if it is woken."""
    thread = threading.Thread(target=work)
    thread.start()
    end = time.monotonic() + DEADLINE_S
    while len(pool._changed._waiters) < count:
        assert time.monotonic() < end
        os.sched_yield()
    yield
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


def test_given_back_to_a_waiter(fake):
    pool = kvd.ClientPool(URL, size=1, wait_ms=2 * DEADLINE_S * 1000)
    got = []

    def work():
        with pool.client() as store:
            got.append(store)

    lent = pool.client()
    store = lent.__enter__()
    with waiting(pool, work):
        assert not got
        lent.__exit__(None, None, None)
    assert got == [store]
    pool.close()


def test_close_while_waiting(fake):
    pool = kvd.ClientPool(URL, size=1, wait_ms=2 * DEADLINE_S * 1000)
    ended = []

    def work():
        try:
            with pool.client():
                pass
        except kvd.InvalidError as error:
            ended.append(str(error))

    with pool.client() as store:
        with waiting(pool, work):
            pool.close()
            pool.close()
        assert ended == ["the pool is closed"] and not store.closed
    assert store.closed and "closed" in repr(pool)


def test_close_waits(fake):
    """close(wait=True) returns in all threads when the last client is given back and closed."""
    pool = kvd.ClientPool(URL, size=2, wait_ms=2 * DEADLINE_S * 1000)
    closed = []

    def work():
        pool.close(wait=True)
        closed.append(one.closed and other.closed)

    lent = contextlib.ExitStack()
    one, other = (lent.enter_context(pool.client()) for _ in range(2))
    # More threads than clients that are given back.
    with waiting(pool, work), waiting(pool, work, 2), waiting(pool, work, 3):
        assert not closed and not one.closed
        lent.close()
    pool.close(wait=True)
    assert closed == [True] * 3


def test_what_is_kept(fake):
    with kvd.ClientPool(URL, size=1) as pool:
        with pool.client() as store:
            fake.status = {"kvd_ping": kvd.Status.ERR_DISCONNECTED}
            with pytest.raises(kvd.DisconnectedError):
                store.ping()
        fake.status = {}
        with pool.client() as again:  # it connects again by itself
            assert again is store
            again.close()
        with pool.client() as third:
            assert third is not store and third.set("k", "v")


def test_failed_opens(fake):
    fake.status = {"kvd_open": kvd.Status.ERR_UNREACHABLE}
    with pytest.raises(kvd.UnreachableError):
        kvd.ClientPool(URL)
    fake.status = {}
    with kvd.ClientPool(URL, size=2, wait_ms=1) as pool, pool.client():
        fake.status = {"kvd_open": kvd.Status.ERR_UNREACHABLE}
        for _ in range(3):  # its place is free again
            with pytest.raises(kvd.UnreachableError), pool.client():
                pass
        fake.status = {}
        with pool.client() as store:
            assert store


def test_arguments(fake):
    for size in (0, -1):
        with pytest.raises(kvd.InvalidError, match="size"):
            kvd.ClientPool(URL, size=size)
    with pytest.raises(kvd.InvalidError, match="wait_ms"):
        kvd.ClientPool(URL, wait_ms=-1)
    with pytest.raises(TypeError, match="wait_ms"):
        kvd.ClientPool(URL, wait_ms=0.5)
    with pytest.raises(TypeError, match="timeout"):
        kvd.ClientPool(URL, timeout=5)
    with pytest.raises(kvd.InvalidError, match="reconnect"):
        kvd.ClientPool(URL, reconnect=0)
    assert opened(fake) == 0


def test_fork(fake):
    """The child has none of the parent's clients, not even the one that the fork found lent, nor a
    lock that another thread had; the parent goes on."""
    pool = kvd.ClientPool(URL, size=2, wait_ms=1)
    held, go = threading.Event(), threading.Event()

    def hold():
        with pool._changed:
            held.set()
            go.wait(DEADLINE_S)

    thread = threading.Thread(target=hold)
    with pool.client(), pool.client():
        pass  # both are open
    with pool.client() as lent:
        thread.start()
        assert held.wait(DEADLINE_S)
        child = os.fork()
        if child == 0:
            status = 1
            signal.alarm(DEADLINE_S)
            try:
                before = opened(fake)
                with pool.client() as one, pool.client() as two:
                    if opened(fake) == before + 2 and not (one is lent or two is lent):
                        pool._give_back(lent)
                        status = 0 if lent.closed and pool._lent == 2 else 2
            finally:
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        go.set()
        thread.join(DEADLINE_S)
        assert status == 0 and not lent.closed
    with pool.client() as store:
        assert store is lent
    pool.close()
