# SPDX-License-Identifier: MIT
"""The page of server.http in headless Chromium, for tests/system/page.sh.

    page_browser.py FOLDER < COMMANDS

FOLDER becomes the browser's. Each line of the input is a command; it prints what is wrong, and then
"= 0", or "= 1" if something is:

    open URL             goes there, and waits until the page has figures and a rate
    look WIDTH SCHEME    checks what the page looks like; SCHEME: light or dark
    keys                 arrow keys go back in time, and Escape returns
    equals URL           waits until the table of operations says what URL/metrics says
    says ID PATTERN      waits until the element's text is like the pattern
    hidden               the page asks for nothing while another tab is seen, and then again
    quiet                there was no error in the console, of the policy for example
    shot FILE            writes a PNG of the page
"""
import base64
import collections
import json
import os
import pathlib
import re
import select
import subprocess
import sys
import time
import urllib.request

DEADLINE_S = 300
PAUSE_S = 0.05
HEIGHT = 1000
FLAGS = ("--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run "
         "--disable-background-networking --disable-component-update --disable-sync "
         "--remote-debugging-pipe")

LOOK = pathlib.Path(__file__).with_name("page_look.js").read_text(encoding="utf-8")
OPERATIONS = """
Object.fromEntries([...document.querySelector("section tbody").rows].map(({ cells }) =>
    [cells[0].textContent.toLowerCase(), Number(cells[2].textContent.replace(/,/g, ""))]))
"""


class Browser:
    """Speaks the DevTools protocol over two pipes; a zero ends each message."""

    def __init__(self, folder):
        theirs_in, self.to = os.pipe()
        self.come, theirs_out = os.pipe()
        script = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec chromium {FLAGS} "--user-data-dir=$1"'
        self.process = subprocess.Popen(["bash", "-c", script, "bash", folder],
                                        pass_fds=(theirs_in, theirs_out),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(theirs_in)
        os.close(theirs_out)
        self.left, self.number, self.events = b"", 0, []

    def receive(self):
        deadline = time.monotonic() + DEADLINE_S
        while b"\0" not in self.left:
            if not select.select([self.come], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            data = os.read(self.come, 1 << 16)
            if not data:
                raise ConnectionError("the browser has ended")
            self.left += data
        message, self.left = self.left.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def tab(self):
        made = self.call("Target.createTarget", url="about:blank")["targetId"]
        return made, self.call("Target.attachToTarget", targetId=made, flatten=True)["sessionId"]

    def close(self):
        self.call("Browser.close")
        self.process.wait(DEADLINE_S)


def until(condition, what):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(what())
        time.sleep(PAUSE_S)


def metrics_of(url):
    with urllib.request.urlopen(f"{url}/metrics", timeout=DEADLINE_S) as answer:
        text = answer.read().decode()
    counts = collections.Counter()
    for command, value in re.findall(r'^kvd_commands_total\{command="(\w+)",.*\} (\d+)$', text,
                                     re.M):
        counts[command] += int(value)
    return counts


class Page:
    def __init__(self, folder):
        self.browser = Browser(folder)
        self.target, self.session = self.browser.tab()
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def steps(self):
        return int(self.value("document.body?.dataset.steps ?? 0"))

    def step(self, count=1):
        """Waits for that many more answers of the server."""
        begin = self.steps()
        until(lambda: self.steps() >= begin + count, lambda: f"{self.steps()} steps, not more")

    def open(self, url):
        self.call("Page.navigate", url=url)
        until(lambda: self.steps() >= 2, lambda: "no figures: " +
              self.value("document.documentElement.textContent"))
        return []

    def look(self, width, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=int(width), height=HEIGHT,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.step()
        return self.value(LOOK)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def keys(self):
        def head():
            return self.value('document.querySelector("section th:nth-child(2)").textContent')
        wrong = []
        self.value('document.querySelector("section svg").focus()')
        self.press("ArrowLeft")
        until(lambda: re.fullmatch(r"\d\d:\d\d:\d\d", head()), head)
        if not self.value('!!document.querySelector("section svg .cursor")'):
            wrong.append("there is no cursor")
        self.press("Escape")
        until(lambda: head() == "now", head)
        return wrong

    def equals(self, url):
        pairs = []

        def same():
            counts, shown = metrics_of(url), self.value(OPERATIONS)
            pairs[:] = {command: counts[command] for command in shown}, shown
            return pairs[0] == pairs[1] and pairs[0]["put"] and pairs[0]["get"]
        until(same, lambda: f"{pairs[0]} in /metrics, {pairs[1]} on the page")
        return []

    def says(self, name, *pattern):
        def text():
            return self.value(f"document.getElementById({json.dumps(name)}).textContent")
        until(lambda: re.fullmatch(" ".join(pattern), text()), text)
        return []

    def hidden(self):
        other, _ = self.browser.tab()
        self.browser.call("Target.activateTarget", targetId=other)
        until(lambda: self.value("document.hidden"), lambda: "it is not hidden")
        until(lambda: not self.value("asking"), lambda: "it goes on to ask")
        wrong = ["it will ask again"] if self.value("timer") else []
        self.browser.call("Target.closeTarget", targetId=other)
        self.browser.call("Target.activateTarget", targetId=self.target)
        self.step(2)
        return wrong

    def quiet(self):
        bad = []
        for event in self.browser.events:
            params = event.get("params", {})
            entry = params.get("entry", {})
            if event["method"] == "Runtime.exceptionThrown":
                bad.append(json.dumps(params["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled":
                bad.append(json.dumps(params["args"]))
            elif event["method"] == "Log.entryAdded" and \
                    "net::ERR_CONNECTION_REFUSED" not in entry["text"]:
                bad.append(f"{entry['source']}: {entry['text']} {entry.get('url')}")
        return bad

    def shot(self, path):
        height = self.value("document.documentElement.scrollHeight")
        width = self.value("innerWidth")
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True,
                            clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))
        return []


def main():
    page = Page(sys.argv[1])
    for line in sys.stdin:
        name, *arguments = line.split()
        try:
            wrong = getattr(page, name)(*arguments)
        except (TimeoutError, RuntimeError) as error:
            wrong = [str(error)]
        print(*wrong, f"= {int(bool(wrong))}", sep="\n", flush=True)
    page.browser.close()


if __name__ == "__main__":
    main()
