"""A small service for the supervisor's tests: a health page, and ways to misbehave.

stand_in.py PORT [die-at-start | stubborn | slow-to-stop | never-ready]
"""

import http.server
import signal
import sys


class Health(http.server.BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def main(port: int, habit: str) -> None:
    print(f"stand-in says hello on {port}", flush=True)
    if habit == "die-at-start":
        print("cannot go on: the reason", flush=True)
        sys.exit(3)
    if habit == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    if habit == "never-ready":
        Health.status = 503
    http.server.HTTPServer.allow_reuse_address = True
    http.server.HTTPServer(("127.0.0.1", port), Health).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "")
