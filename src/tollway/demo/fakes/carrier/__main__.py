"""`python -m tollway.demo.fakes.carrier`: starts the carrier and says where it listens."""

import argparse
import asyncio
import json
import signal
import sys
from pathlib import Path

from tollway.demo.fakes.carrier.faults import FaultError, Faults
from tollway.demo.fakes.carrier.server import Carrier, serve
from tollway.demo.fakes.carrier.waybill_book import DIGIT, Journal, WaybillBook


def main() -> int:
    options = _options()
    faults = Faults()
    try:
        for text in options.fault:
            faults.add(json.loads(text))
        secret = options.secret_file.read_text("utf-8").strip("\r\n")
        journal = Journal(options.journal)
    except (FaultError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    carrier = Carrier(journal, WaybillBook(journal, options.numbers_format), faults, secret)
    try:
        asyncio.run(_run(carrier, options.port))
    finally:
        journal.close()
    return 0


async def _run(carrier: Carrier, port: int) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    server = await serve(carrier, port)
    bound = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"The fake carrier listens on http://127.0.0.1:{bound}\nStop with Ctrl+C.\n")
    sys.stdout.flush()
    await stopped.wait()
    server.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tollway.demo.fakes.carrier",
        description="A carrier to try Tollway with, that misbehaves on request.",
    )
    parser.add_argument("--port", type=int, default=0, help="the port, 0 for any that is free")
    parser.add_argument("--journal", type=Path, required=True, help="what it has done, kept")
    parser.add_argument(
        "--secret-file", type=Path, required=True, help="what messages are signed with"
    )
    parser.add_argument(
        "--numbers-format",
        default="YT" + DIGIT * 13,
        help=f"what its numbers look like, {DIGIT} for a digit (default: %(default)s)",
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="JSON",
        help="misbehave from the start, as by /control; may be given several times",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
