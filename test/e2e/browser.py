"""A headless Chromium for the cases that look at a page: its DevTools protocol over a small websocket client, for the
standard library has none.  The browser gets a folder of its own, and what it says of network and console is kept."""
import base64
import itertools
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import time
import urllib.parse

from harness import Failure, Process, Skip, until

NAMES = ("chromium", "chromium-browser", "google-chrome")
ANSWER = 120  # seconds to wait for an answer: the machine may be busy


class Socket:
    """The client's end of a websocket."""

    def __init__(self, url):
        parts = urllib.parse.urlsplit(url)
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=ANSWER)
        key = base64.b64encode(os.urandom(16)).decode()
        self.socket.sendall((f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.more()
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise Failure(f"the browser refused the websocket: {head[:100]}")

    def more(self):
        data = self.socket.recv(1 << 16)
        if not data:
            raise Failure("the browser closed the connection")
        self.buffer += data

    def take(self, size):
        while len(self.buffer) < size:
            self.more()
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = len(data)
        head = struct.pack("!BB", 0x81, 0x80 | size) if size < 126 else (
            struct.pack("!BBH", 0x81, 0xFE, size) if size < 1 << 16 else struct.pack("!BBQ", 0x81, 0xFF, size))
        self.socket.sendall(head + mask + bytes(byte ^ mask[i % 4] for i, byte in enumerate(data)))

    def receive(self):
        """The next message, which may come in several frames."""
        message = b""
        while True:
            first, second = self.take(2)
            size = second & 127
            if size > 125:
                (size,) = struct.unpack("!H" if size == 126 else "!Q", self.take(2 if size == 126 else 8))
            data = self.take(size)
            if first & 15 == 8:
                raise Failure("the browser closed the websocket")
            if first & 15 in (0, 1):
                message += data
                if first & 128:
                    return message.decode()


class Browser:
    """One page of a headless Chromium."""

    def __init__(self, folder, width=1280, height=720):
        program = next(filter(None, map(shutil.which, NAMES)), None)
        if not program:
            raise Skip("there is no Chromium here to look at the page with (Debian: chromium)")
        self.folder = os.path.join(folder, "browser")
        os.makedirs(self.folder)
        self.process = Process([program, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
                                "--disable-component-update", "--disable-background-networking", "--remote-debugging-port=0",
                                f"--user-data-dir={self.folder}", f"--window-size={width},{height}", "about:blank"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               env={**os.environ, "HOME": self.folder}, start_new_session=True)
        try:
            self.connect(width, height)
        except BaseException:
            self.close()
            raise

    def connect(self, width, height):
        said = os.path.join(self.folder, "DevToolsActivePort")
        port, path = until("the browser listens", lambda: os.path.exists(said) and len(open(said).read().split()) == 2 and
                           open(said).read().split(), ANSWER)
        self.socket, self.numbers, self.events, self.session = Socket(f"ws://127.0.0.1:{port}{path}"), itertools.count(1), [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.resize(width, height)

    def resize(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def call(self, method, **parameters):
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.receive())
            if answer.get("id") == number:
                if "error" in answer:
                    raise Failure(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def open(self, path):
        """Open a file; its script has run when window.calltap is there."""
        self.call("Page.navigate", url="file://" + urllib.parse.quote(path))
        until("the page has read its data", lambda: self.run("typeof calltap !== 'undefined' && document.readyState === 'complete'"), ANSWER)

    def run(self, expression):
        """The value of an expression, for which a promise is waited."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise Failure(f"{expression}: {json.dumps(answer['exceptionDetails'])[:500]}")
        return answer["result"].get("value")

    def frame(self):
        """Wait until what was asked for is drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def key(self, key, **more):
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **more)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **more)
        self.frame()

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)
        self.frame()

    def click_on(self, selector):
        x, y = self.run(f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                        " return [box.x + box.width / 2, box.y + box.height / 2]; })()")
        self.click(x, y)

    def picture(self, path):
        self.frame()
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def complaints(self):
        """What the page wrote to the console, exceptions in it, and what the browser said of it."""
        return [event["params"] for event in self.events
                if event.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")]

    def requests(self):
        return [event["params"]["request"]["url"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]

    def close(self):
        """End the browser, with all of its processes, which are a group of their own."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            end = time.monotonic() + 20
            while self.process.poll() is None and time.monotonic() < end:
                time.sleep(0.05)
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.stopped = True
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
