#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""System test of failing calls: each place where a server and a client make a call that can fail.

Of a server that is started, used (by tests/nth/client.c and a client of memcached's protocol),
reloaded and stopped, and of a client that uses a server, the N-th call at one place fails
(tests/nth/interpose.h). Then

  - a server ends with status 1 and an error in its log, or goes on;
  - each call of a client ends well, or by a status and a text, and none by a timeout; what follows
    on the same handles and on a new one works;
  - nothing crashes or hangs, and nothing is left: descriptors, mappings, threads, files, memory
    (in the build with AddressSanitizer).

In the short form one place of each call and one in each source file fail once, the first time that
they are reached. With KVD_TEST_LONG=1 all places do, for every N, by each error that the call may
have, and from the first time on; on an RDMA device, which an emulated machine has, still so few,
and only those in common/rdma: what is above it is the same on softnic.
KVD_NTH='recvmsg:' runs only the places whose `CALL: FILE:LINE` contains it, and all of those;
KVD_NTH_SITES=1 prints those never reached.

At the end: for each call the places in the sources, those reached, the runs in which it failed, and
in how many of them all worked, something was refused with a text, or the program ended with one.
"""
import collections
import concurrent.futures
import ctypes
import fcntl
import itertools
import os
import queue
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

DEVICE = os.environ.get("KVD_TEST_DEVICE", "softnic")
ON_RDMA = DEVICE != "softnic"
DEADLINE_S = 240
CLIENT_S = 240
LOOK_S = 0.004
TRIES = 3  # of a run in which the call was not made: threads differ from run to run
RUNS_MAX = 60  # N at one place; a loop that polls has no last one
JOBS = 3
NAME_BYTES, LEFT_BYTES, SITES = 32, 2048, 4096
SANITIZER_STATUS = 99
EXCERPT = 3000  # bytes of each text that is shown of a run that was wrong
LONG = os.environ.get("KVD_TEST_LONG", "0") == "1"
EVERY = LONG and not ON_RDMA
ONLY = os.environ.get("KVD_NTH", "")
SHOW = "KVD_NTH_SITES" in os.environ
BUILD = os.path.realpath(os.environ.get("KVD_BUILD", "build"))
FLAVOUR = os.path.basename(BUILD) if os.path.basename(BUILD) in ("asan", "tsan") else "release"
# Without these something must stay: it is not released, or kvd can't know that it is its own.
RELEASING = ("munmap", "unlink", "rmdir", "fallocate", "mremap", "flock", "pread", "lstat",
             "fstat")
# These fail because of a signal: not for ever. Nor does the read of a signalfd.
INTERRUPTED = ("epoll_wait", "poll", "ppoll", "nanosleep", "waitpid")
# What a client maps once and keeps: the page with which peers see that the process has died.
KEPT_BYTES = 4096
# The folders of the code that this device does not run; what is set up over TCP shares objects with
# rdma.
OTHER_DEVICES = {"softnic": ("rdma/verbs/", "rdma/tcp/", "common/tls/"),
                 "rdma": ("rdma/softnic/", "rdma/tcp/", "common/tls/"),
                 "rdma+tcp": ("rdma/softnic/", "common/tls/"),
                 "rdma+tls": ("rdma/softnic/",)}[DEVICE]
# Further folders and files of kvd: what only a member of a fleet runs, which the server here is
# not, what serves memcached's clients with TLS or passwords, of which it has none, and HTTP, the
# audit log and the files of a store, which it has not either.
NOT_RUN = {"kvd": (*OTHER_DEVICES, "client/", "server/fleet/", "memcached/fleet_handle",
                   "memcached/flusher", "memcached/forward", "memcached/login",
                   "control/handshake", "control/logins", "control/password_job",
                   "users/password", "server/http/", "server/audit_file", "server/line_writer",
                   "store/keep", "store/recover", "store/adopt", "control/kept_",
                   "server/crash"), "client": OTHER_DEVICES}
# The least share of the places in code for this device that is reached: below it, something here no
# longer works.
REACHED_MIN = {"kvd": 0.55 if ON_RDMA else 0.6, "client": 0.45}
OUTCOMES = {"kvd": ("worked", "refused", "ended"), "client": ("worked", "refused")}

LARGE = b"l" * 300000  # has its item before it has arrived, and is sent from there
MIDDLE = b"m" * 60000
MIDDLES = 30  # together more than a socket takes
MIDDLE_ANSWER = b"VALUE m 0 %d\r\n%b\r\nEND\r\n" % (len(MIDDLE), MIDDLE)
# What a client of memcached's protocol sends, each part by itself, and the answer; None: any up to
# a line END.
MEMCACHED = (
    (b"flush_all\r\n", b"OK\r\n"),
    (b"set a 0 0 1\r\n", b""),
    (b"1\r\n", b"STORED\r\n"),
    (b"get a\r\n", b"VALUE a 0 1\r\n1\r\nEND\r\n"),
    (b"set l 0 0 %d\r\n%b\r\n" % (len(LARGE), LARGE), b"STORED\r\n"),
    (b"append l 0 0 1\r\nl\r\n", b"STORED\r\n"),
    (b"get l\r\n", b"VALUE l 0 %d\r\n%bl\r\nEND\r\n" % (len(LARGE) + 1, LARGE)),
    (b"set m 0 0 %d\r\n%b\r\n" % (len(MIDDLE), MIDDLE), b"STORED\r\n"),
    (b"get m\r\n" * MIDDLES, MIDDLE_ANSWER * MIDDLES),
    (b"ms s 2\r\n12\r\nmd s I\r\n", b"HD\r\nHD\r\n"),
    (b"mg s v\r\n", b"VA 2 X W\r\n12\r\n"),
    (b"ma n N0 v\r\n", b"VA 1\r\n0\r\n"),
    (b"stats\r\n", None),
    (b"delete a\r\nquit\r\n", b"DELETED\r\n"),
)

Fault = collections.namedtuple("Fault", "site offset first count other")
Report = collections.namedtuple("Report", "failed ended mappings threads fds left reached")


class Wrong(Exception):
    """What must not happen."""


class Site:
    def __init__(self, call, place, function):
        self.call, self.place, self.function = call, place, function
        self.offsets = set()

    def __str__(self):
        return f"{self.call}: {self.place} ({self.function})"


def known():
    """The calls that are not judged."""
    with open("tests/nth/known", encoding="utf-8") as file:
        return set(re.findall(r"^\t(\w+ \w+)$", file.read(), re.M))


def others():
    """The calls that may fail by a second error."""
    with open("tests/nth/calls.h", encoding="utf-8") as file:
        return set(re.findall(r"^\tX\((\w+), \w+, [^,]+, (?!0\))", file.read(), re.M))


def sites_of(program):
    """Sites by name and by (call, offset); one row for a line that was inlined several times."""
    by_name, by_offset = {}, {}
    with open(f"{BUILD}/tests/nth/{program}.sites", encoding="utf-8") as file:
        for line in file:
            call, place, function, *offsets = line.split()
            site = by_name.setdefault((call, place), Site(call, place, function))
            for offset in offsets:
                site.offsets.add(offset)
                by_offset[call, offset] = site
    return by_name, by_offset


def report_read(path):
    with open(path, "rb") as file:
        data = file.read()
    failed, ended, mappings, threads, fds = struct.unpack_from("<QQqQQ", data)
    left = data[40:40 + LEFT_BYTES].split(b"\0")[0].decode()
    reached = {}
    for i in range(SITES):
        offset, count, call = struct.unpack_from(f"<QQ{NAME_BYTES}s", data,
                                                 40 + LEFT_BYTES + i * (16 + NAME_BYTES))
        if offset:
            reached[call.split(b"\0")[0].decode(), str(offset)] = count
    return Report(failed, ended, mappings, threads, fds, left, reached)


def environment(folder, fault):
    env = dict(os.environ, KVD_NTH_REPORT=f"{folder}/report")
    env.pop("KVD_NTH", None)
    if fault:
        env["KVD_NTH"] = (f"{fault.site.call}:{fault.offset}:{fault.first}:{fault.count}"
                          + (":other" if fault.other else ""))
    options = f"log_path={folder}/san:exitcode={SANITIZER_STATUS}"
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS"):
        env[name] = f"{env.get(name, '')}:{options}"
    return env


def text_of(*paths):
    text = ""
    for path in paths:
        if os.path.exists(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                text += file.read()
    return text


class Server:
    """A server in a folder of its own."""

    def __init__(self, folder, profile, program, fault=None):
        self.folder, self.fault, self.profile = folder, fault, profile
        self.log = f"{folder}/log"
        self.url = f"softnic://{folder}/d/s"
        self.memcached = f"{folder}/m"
        address = os.environ.get("KVD_RDMA_ADDR", "auto")
        port = 20000 + (os.getpid() * 7 + int(folder.rsplit("/", 1)[1])) % 10000
        if ON_RDMA:
            self.url = f"{profile.device}://{address}:{port}"
        with open(f"{folder}/kvd.ini", "w", encoding="utf-8") as file:
            file.write(f"""[tls]
psk = {os.environ.get("KVD_TLS_PSK", "")}
[memory]
size = 16m
[limits]
max_value = 1m
[request]
srq_depth = 64
[log]
file = {self.log}
[server]
listen = {self.url},memcached://{self.memcached}
workers = 1
max_connections = 16
""")
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(f"{folder}/notify")
        self.notify.setblocking(False)
        env = environment(folder, fault)
        env["NOTIFY_SOCKET"] = f"{folder}/notify"
        command = [program, "-c", f"{folder}/kvd.ini", *profile.arguments(folder)]
        with open(f"{folder}/stderr", "w", encoding="utf-8") as stderr:
            self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                                            stdout=stderr, stderr=stderr)
        self.pid, self.status = self.process.pid, None
        self.told = ""  # to the service manager: what a log that can't be written does not say

    def ended(self):
        """Whether the process that serves has."""
        self.drain()
        if self.status is not None:
            return True
        if self.pid == self.process.pid:
            self.status = self.process.poll()
        else:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def drain(self):
        try:
            while True:
                self.told += self.notify.recv(4096).decode(errors="replace")
        except BlockingIOError:
            pass

    def wait(self, what, state):
        until = time.monotonic() + DEADLINE_S
        while not state():
            if time.monotonic() > until:
                raise Wrong(f"{what}: not within {DEADLINE_S} s")
            time.sleep(LOOK_S)

    def start(self):
        """Whether it serves."""
        if self.profile.detaches:
            self.wait("kvd -d returns", lambda: self.process.poll() is not None)
            if self.process.returncode:
                self.status = self.process.returncode
                return False
            match = re.search(r"ready: ", text_of(self.log))
            if not match:
                raise Wrong("kvd -d returned before it was ready")
            self.pid = next(iter(self.detached()), self.pid)
            return True
        self.wait("the server is ready", lambda: self.ended() or "READY=1" in self.told
                  or " ready: " in text_of(self.log))
        return not self.ended()

    def kill(self):
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            self.wait("its end", self.ended)
        if self.profile.detaches:
            for pid in self.detached():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        self.notify.close()

    def detached(self):
        """Our children: this process adopts the processes that its children leave."""
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
            return [pid for pid in map(int, file.read().split())
                    if self.folder + "/" in text_of(f"/proc/{pid}/cmdline")]

    def texts(self):
        return text_of(self.log, f"{self.folder}/moved", f"{self.folder}/stderr")


def run_client(server, folder, mode, fault=None, limit_s=CLIENT_S):
    """The client's status, and what it said; None if the server ended meanwhile."""
    env = environment(folder, fault)
    if not fault and folder == server.folder:
        env.pop("KVD_NTH_REPORT")
    said = f"{folder}/client"
    with open(said, "w", encoding="utf-8") as out:
        client = subprocess.Popen([f"{BUILD}/tests/nth/client", server.url, mode], env=env,
                                  stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    until = time.monotonic() + limit_s
    while client.poll() is None:
        if server.ended() or time.monotonic() > until:
            client.kill()
            client.wait()
            if not server.ended():
                raise Wrong(f"the client did not end within {limit_s} s\n{text_of(said)}")
            return None, text_of(said)
        time.sleep(LOOK_S)
    return client.returncode, text_of(said)


def answer_arrives(client, right):
    """Whether it is the right one; an error, or the end of the connection, is another."""
    got = bytearray()
    while not (got.endswith(b"\r\nEND\r\n") if right is None else len(got) >= len(right)):
        part = client.recv(1 << 20)
        got += part
        # An item that there is no memory to mark as stale is deleted.
        if not part or got.startswith(b"SERVER_ERROR") or got == b"EN\r\n":
            return False
    if right is not None and got != right:
        if b"SERVER_ERROR" in got:
            return False
        raise Wrong(f"memcached's client: wrong answer: {bytes(got[:100])}")
    return True


def run_memcached(server):
    """Whether a client of memcached's protocol was refused something."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(CLIENT_S)
        try:
            client.connect(server.memcached)
            for sent, right in MEMCACHED:
                client.sendall(sent)
                if not answer_arrives(client, right):
                    return True
        except TimeoutError as error:
            raise Wrong(f"memcached's client: no answer within {CLIENT_S} s") from error
        except OSError:
            return True
    return False


def check_left(report, folder, fault, kept, kept_fds):
    """That nothing is left of a process that has ended by itself."""
    releases = fault and fault.site.call in RELEASING
    if report.fds > kept_fds:
        raise Wrong(f"descriptors are left:{report.left}")
    if report.threads > 1:
        raise Wrong(f"{report.threads - 1} threads are left")
    if report.mappings > KEPT_BYTES and not releases:
        raise Wrong(f"{report.mappings} bytes of mappings are left")
    files = set(os.listdir(folder)) - kept
    reports = sorted(name for name in files if name.startswith("san"))
    if reports:
        raise Wrong(text_of(*(f"{folder}/{name}" for name in reports)))
    if files and not releases:
        raise Wrong(f"files are left: {' '.join(sorted(files))}")


KEPT = {"kvd.ini", "log", "moved", "stderr", "client", "report", "notify"}


class Profile:
    """A way to run a program: which calls are made depends on it."""

    def __init__(self, name, device, *options, detaches=False):
        self.name, self.device, self.options = name, device, options
        self.detaches = detaches
        self.program = "client" if name.startswith("client") else "kvd"
        self.library_fds = 0

    def kept_fds(self, report, fault):
        """librdmacm never closes the devices that it has opened."""
        if not fault and self.device == "rdma":
            self.library_fds = len(re.findall("=(/dev/infiniband/|anon_inode:.infinibandevent)",
                                              report.left))
        return self.library_fds

    def arguments(self, folder):
        return [text.replace("@", folder) for text in self.options]

    def run_server(self, folder, fault):
        server = Server(folder, self, f"{BUILD}/tests/nth/kvd", fault)
        try:
            mode = "once" if not fault else "server" if fault.count else "all,server"
            refused = False
            if server.start():
                refused = self.use(server, mode)
            elif "--check-config" in self.options and server.status in (0, 74, 78):
                refused = server.status != 0  # 74: it can't print that the file is right
                server.status = 1 if refused else 0
        finally:
            server.kill()
        report = report_read(f"{folder}/report")
        texts = server.texts()
        if server.status == 78 and fault and (fault.site.call == "ferror" or fault.other):
            server.status = 1  # the file can't be read: not a reason to start again
        if server.status not in (0, 1):
            raise Wrong(f"the server ended with status {server.status}")
        if server.status == 1 and not re.search(" error |^kvd: |/kvd[.]ini: ", texts, re.M):
            raise Wrong("the server ended with status 1 and no text")
        if not report.ended:
            raise Wrong("the server did not end by exit(3)")
        check_left(report, folder, fault, KEPT, self.kept_fds(report, fault))
        return report, "ended" if server.status else "refused" if refused else "worked"

    def use(self, server, mode):
        """Whether a client was refused something."""
        status, said = run_client(server, server.folder, mode)
        if status is None:
            return True
        if status:
            raise Wrong(f"the client failed with status {status}")
        refused = run_memcached(server)
        if refused and mode != "all,server" and run_memcached(server) and not server.ended():
            raise Wrong("memcached's client: it is refused after the fault")
        os.rename(server.log, f"{server.folder}/moved")
        with open(f"{server.folder}/kvd.ini", "a", encoding="utf-8") as file:
            file.write("drain_timeout = 4s\n")
        os.kill(server.pid, signal.SIGHUP)
        server.wait("the reload is in the log",
                    lambda: server.ended() or "RELOADING=1" in server.told
                    or "SIGHUP" in server.texts())
        if not server.ended() and mode != "all,server":
            run_client(server, server.folder, "ping")
        if not server.ended():
            os.kill(server.pid, signal.SIGTERM)
        server.wait("the end of the server", server.ended)
        return refused or "refused:" in said

    def run_client(self, folder, fault):
        mode = ",".join(("all" if fault and not fault.count else "once", *self.options))
        server = SERVERS.get()
        try:
            status, said = run_client(server, folder, mode, fault)
        finally:
            SERVERS.put(server)
        if status is None:
            raise Wrong("the server ended")
        if status:
            raise Wrong(f"the client failed with status {status}")
        report = report_read(f"{folder}/report")
        check_left(report, folder, fault, KEPT, self.kept_fds(report, fault))
        return report, "refused" if "refused:" in said else "worked"

    def run(self, fault):
        """The report and the outcome; prints what is wrong, and returns None then."""
        folder = folder_make()
        try:
            return (self.run_client if self.program == "client" else self.run_server)(folder, fault)
        except Wrong as error:
            what = (f"{fault.site}, number {fault.first}{'' if fault.count else ' and after'}"
                    f"{', by another error' if fault.other else ''}" if fault else "no fault")
            names = ["moved", "log", "stderr", "client"]
            names += [name for name in os.listdir(folder) if name.startswith("san")]
            shown = "\n".join(text_of(f"{folder}/{name}")[-EXCERPT:] for name in names)
            print(f"FAIL  {self.name}: {what}: {error}\n"
                  + "\n".join(f"      | {line}" for line in shown.splitlines()), flush=True)
            return None
        finally:
            shutil.rmtree(folder)


def folder_make():
    folder = f"{TMP}/{next(FOLDERS)}"
    os.makedirs(folder)
    return folder


FOLDERS = itertools.count(1)


def profiles():
    common = ("--pidfile", "@/pid")
    if ON_RDMA:
        return [Profile(f"kvd on {DEVICE}", DEVICE, *common),
                Profile(f"client on {DEVICE}", DEVICE),
                Profile(f"client that sleeps, on {DEVICE}", DEVICE, "sleep"),
                Profile("kvd --check-config", DEVICE, "--check-config")]
    return [
        Profile("kvd", "softnic", *common),
        Profile("kvd -d", "softnic", *common, "-d", detaches=True),
        Profile("kvd with normal pages", "softnic", *common, "-o", "memory.hugepages=off",
                "-o", "memory.prefault=no", "-o", "memory.numa=local"),
        Profile("kvd on one node", "softnic", *common, "-o", "memory.numa=0"),
        Profile("kvd on all nodes", "softnic", *common, "-o", "memory.numa=interleave"),
        Profile("kvd --check-config", "softnic", "--check-config"),
        Profile("client", "softnic"),
        Profile("client that sleeps", "softnic", "sleep"),
    ]


def faults_of(site, offset, count):
    """What to try at a place that was reached `count` times."""
    yield Fault(site, offset, 1, 1, False)
    if not EVERY:
        return
    if site.call in OTHERS:
        yield Fault(site, offset, 1, 1, True)
    if site.call not in INTERRUPTED and site.function != "take_signals":
        yield Fault(site, offset, 1, 0, False)
    for first in range(2, min(count, RUNS_MAX) + 1):
        yield Fault(site, offset, first, 1, False)


class Tally:
    def __init__(self):
        self.sites = self.here = self.reached = self.runs = 0
        self.outcomes = collections.Counter()


class Places:
    """All places of both programs, and which were reached in any run."""

    def __init__(self):
        self.named, self.offsets = {}, {}
        self.reached = set()
        for program in ("kvd", "client"):
            self.named[program], self.offsets[program] = sites_of(program)

    def at(self, program, call, offset):
        """None: a call of the test itself. A call at the end of a function that is called by
        address returns to an offset that is not known."""
        found = self.offsets[program]
        return found.get((call, offset)) or found.get((call, "*"))

    def note(self, program, report):
        """The places of a run: site, offset, how often."""
        rows = []
        for (call, offset), count in sorted(report.reached.items()):
            site = self.at(program, call, offset)
            if site:
                self.reached.add((program, str(site)))
                rows.append((site, offset, count))
        return rows

    def tallies(self):
        found = {}
        for program, sites in self.named.items():
            for site in sites.values():
                tally = found.setdefault((program, site.call), Tally())
                tally.sites += 1
                tally.here += not any(folder in site.place for folder in NOT_RUN[program])
                tally.reached += (program, str(site)) in self.reached
                if SHOW and (program, str(site)) not in self.reached:
                    print(f"not reached: {program}: {site}")
        return found


def marks_of(site):
    """The marks of a place; of places with the same marks, one is tried."""
    source = site.place.rsplit(":", 1)[0]
    if EVERY or ONLY:
        return [str(site)]
    return [site.call, source]


def wanted(places):
    """What to try: places in the first profile that reaches them. None: one does not work."""
    found, seen, skipped = [], set(), known()
    for profile in profiles():
        result = profile.run(None)
        if not result:
            return None
        for site, offset, count in places.note(profile.program, result[0]):
            marks = {(profile.program, mark) for mark in marks_of(site)}
            if marks <= seen or ONLY not in str(site):
                continue
            if ON_RDMA and not ONLY and "common/rdma/" not in site.place:
                continue
            seen |= marks
            if f"{site.call} {site.function}" not in skipped:
                found += [(profile, fault) for fault in faults_of(site, offset, count)]
    return found


def attempt(pair):
    profile, fault = pair
    for _ in range(TRIES):
        result = profile.run(fault)
        if not result or result[0].failed:
            break
    return profile, fault, result


def main():
    places, failures, results = Places(), 0, []
    pairs = wanted(places)
    if pairs is None:
        return 1
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for profile, fault, result in pool.map(attempt, pairs):
            failures += not result
            if result:
                places.note(profile.program, result[0])
            if result and result[0].failed:
                results.append((profile.program, fault.site.call, result[1]))
                if SHOW:
                    print(f"{result[1]}: {profile.name}: {fault.site} {fault.first}")
    tallies = places.tallies()
    for program, call, outcome in results:
        tallies[program, call].runs += 1
        tallies[program, call].outcomes[outcome] += 1
    return table(tallies, failures)


def table(tallies, failures):
    """Prints what was reached and what happened; the status of this test."""
    reached = collections.Counter()
    print("| call | kvd: places | reached | fails | worked, refused, ended "
          "| libkvd: places | reached | fails | worked, refused |\n"
          "|---|---|---|---|---|---|---|---|---|")
    for call in sorted({call for _, call in tallies}, key=str.lstrip):
        row = f"| {call}"
        for program in ("kvd", "client"):
            tally = tallies.get((program, call), Tally())
            row += f" | {tally.sites} | {tally.reached} | {tally.runs} | " + ", ".join(
                str(tally.outcomes[name]) for name in OUTCOMES[program])
            reached[program, "sites"] += tally.sites
            reached[program, "here"] += tally.here
            reached[program, "reached"] += tally.reached
            reached["runs"] += tally.runs
        print(row + " |")
    for program in ("kvd", "client"):
        share = reached[program, "reached"] / max(reached[program, "here"], 1)
        print(f"{program}: {reached[program, 'sites']} places, {reached[program, 'here']} of them "
              f"in code that is run here, {reached[program, 'reached']} reached")
        if share < REACHED_MIN[program] and not ONLY:
            print(f"FAIL  {program}: less than {REACHED_MIN[program]:.0%} of the places are "
                  f"reached")
            failures += 1
    print(f"{reached['runs']} runs in which a call failed, {failures} of them wrong")
    return failures != 0


if FLAVOUR == "tsan" and not LONG:
    print("threads are not what this is about: release and AddressSanitizer run it")
    sys.exit(77)
if ON_RDMA and not os.environ.get("KVD_RDMA_ADDR"):
    print("no RDMA device: KVD_RDMA_ADDR is not set")
    sys.exit(77)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _: sys.exit(128 + number))
if ON_RDMA and not LONG and not ONLY:
    print("on verbs this takes long in the emulated machine: KVD_TEST_LONG=1, or KVD_NTH=rdma_")
    sys.exit(77)
# memory.sh and test_region hold the host's large pages by this lock while they count them.
HUGEPAGES = None
if os.path.exists("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"):
    HUGEPAGES = open("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", encoding="ascii")
    fcntl.flock(HUGEPAGES, fcntl.LOCK_SH)
PR_SET_CHILD_SUBREAPER = 36
ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
TMP = tempfile.mkdtemp(prefix="nth.", dir=os.environ.get("TMPDIR"))
OTHERS = others()
SERVERS = queue.Queue()  # each for one client at a time
try:
    for _ in range(JOBS):
        SERVERS.put(Server(folder_make(), profiles()[0], f"{BUILD}/kvd"))
    STATUS = main() if all(server.start() for server in list(SERVERS.queue)) else 1
finally:
    for server in list(SERVERS.queue):
        server.kill()
    shutil.rmtree(TMP)
sys.exit(STATUS)
