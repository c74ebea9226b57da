"""`python -m tollway.demo.fakes.link`: starts the gateway and says where it listens."""

import argparse
import signal
import sys
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from tollway.demo.fakes.link.gateway import LinkGateway, handler_of


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tollway.demo.fakes.link", description="A LINK gateway to try Tollway with."
    )
    parser.add_argument("--port", type=int, default=0, help="the port, 0 for any that is free")
    parser.add_argument("--secret-file", type=Path, required=True, help="the merchant's secret")
    parser.add_argument("--token", default="TOLLWAY", help="the merchant's token (%(default)s)")
    parser.add_argument(
        "--city", action="append", help="a city whose sender addresses are subscribed (杭州市)"
    )
    parser.add_argument(
        "--numbers", default="YT" + "#" * 13, help="what numbers look like (%(default)s)"
    )
    options = parser.parse_args()
    secret = options.secret_file.read_text("utf-8").strip("\r\n")
    cities = set(options.city or ["杭州市"])
    gateway = LinkGateway(options.token, secret, cities, options.numbers)
    server = ThreadingHTTPServer(("127.0.0.1", options.port), handler_of(gateway))
    server.daemon_threads = True
    for number in (signal.SIGINT, signal.SIGTERM):
        # Elsewhere: a server that is shut down from its own thread waits for itself.
        signal.signal(number, lambda *_: Thread(target=server.shutdown).start())
    address = f"http://127.0.0.1:{server.server_address[1]}/gateway/link.do"
    sys.stdout.write(f"The fake LINK gateway listens on {address}\nStop with Ctrl+C.\n")
    sys.stdout.flush()
    server.serve_forever()
    server.server_close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
