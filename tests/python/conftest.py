# SPDX-License-Identifier: MIT
"""A server for each test that wants one, as tests/system/python.sh has set it up."""

import os
import pathlib
import signal
import subprocess
import time

import kvd
import pytest

# Nothing takes so long: bounds for what would wait for ever.
DEADLINE_S = 300
PATIENT = {"timeout_ms": DEADLINE_S * 1000, "connect_timeout_ms": DEADLINE_S * 1000}
TREE = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["KVD_BUILD"])
CONFIG = os.environ["KVD_PYTHON_CONFIG"]  # of a server: where it listens
URL = os.environ["KVD_PYTHON_URL"]
CONFIG_2 = os.environ["KVD_PYTHON_CONFIG_2"]  # of a second one
URL_2 = os.environ["KVD_PYTHON_URL_2"]


def pytest_configure(config):
    config.addinivalue_line("markers", "device: what may depend on the device")
    config.addinivalue_line("markers", "extension: what the extension does in place of ctypes")


class Server:
    """A kvd, started and stopped by a test."""

    def __init__(self, config=CONFIG, url=URL):
        self.process = subprocess.Popen(
            [BUILD / "kvd", "-c", config], stderr=subprocess.DEVNULL)
        try:
            self.await_ready(url)
        except BaseException:
            self.end(signal.SIGKILL)
            raise

    def await_ready(self, url):
        end = time.monotonic() + DEADLINE_S
        while True:
            try:
                kvd.Client(url, cache_bytes=0).close()
                return
            except kvd.Error:
                assert self.process.poll() is None and time.monotonic() < end, "no server"
                time.sleep(0.01)

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(DEADLINE_S)


class Stopped:
    """The server is stopped: nothing that needs its threads ends."""

    def __init__(self, server):
        self.pid = server.process.pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        end = time.monotonic() + DEADLINE_S
        while not self.stopped():
            assert time.monotonic() < end
            time.sleep(0.001)

    def stopped(self):
        """All of its threads: a signal takes a moment."""
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{task}/stat", encoding="ascii") as file:
                if file.read().rsplit(")", 1)[1].split()[0] != "T":
                    return False
        return True

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)


@pytest.fixture(scope="session")
def shared_server():
    server = Server()
    yield server
    server.end()


@pytest.fixture
def url(shared_server):
    return URL


@pytest.fixture
def store(url):
    """A client of an empty store."""
    with kvd.Client(url, **PATIENT) as client:
        client.flush()
        yield client
