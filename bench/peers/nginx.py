"""nginx with Lua in front of Redis: one Lua script in Redis checks, reads and charges a call.

Leaves out what makes a charge provable: entries of the ledger, receipts, idempotency keys; limits
are counted in whole seconds instead of any second; tokens are stored in plain text, and records in
one piece without sealed originals; waybill labels are not signed, and addresses not checked.
Requests are checked only as far as they are used. All data is in memory; Redis writes each charge
to disk before it answers (appendfsync always).
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from subprocess import Popen

from bench.peers.answers import SLOT, Data
from bench.scenarios import CLAIM_SID, CLAIM_TYPE, NUMBER
from bench.servers import START_S, free_port, missing, start, stop
from bench.world import PRICES, ZONE, World
from tollway.demo.owners import SHOP, USER
from tollway.operations.catalogue import OPERATIONS
from tollway.operations.waybills.demo import WP_CODE

TITLE = "nginx + Lua + Redis"
_HERE = Path(__file__).parent
_PROGRAMS = {"nginx": "nginx", "redis-server": "redis-server", "redis-cli": "redis-server"}
_FILES = {
    "/usr/lib/nginx/modules/ngx_http_lua_module.so": "libnginx-mod-http-lua",
    "/usr/share/lua/5.1/nginx/redis.lua": "lua-nginx-redis",
}
_MANY = 10**9


def missing_tools() -> list[str]:
    files = [
        f"{file} (apt install {name})" for file, name in _FILES.items() if not Path(file).exists()
    ]
    return missing(_PROGRAMS) + files


class NginxPeer:
    """Both servers, on the core of all servers."""

    def __init__(self, folder: Path, world: World, data: Data) -> None:
        self._redis_port, self.port = free_port(), free_port()
        script = (_HERE / "redis.lua").read_text(encoding="utf-8")
        self._started: list[Popen[bytes]] = []
        self._started.append(self._start_redis(folder))
        try:
            self._wait_for_redis()
            load = subprocess.run(
                ["redis-cli", "-p", str(self._redis_port), "--pipe"],
                input=b"".join(map(_encoded, _commands(world, data, script))),
                check=False,
                capture_output=True,
            )
            if b"errors: 0" not in load.stdout:
                raise SystemExit(f"Redis did not take the data: {load.stdout.decode()}")
            self._write_configuration(folder, hashlib.sha1(script.encode()).hexdigest())
            self._started.append(
                start(
                    ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")],
                    self.port,
                    folder,
                    folder / "nginx.log",
                )
            )
        except BaseException:
            self.stop()
            raise

    @property
    def pids(self) -> list[int]:
        return [each.pid for each in self._started]

    def stop(self) -> None:
        for each in reversed(self._started):
            stop(each)

    def _start_redis(self, folder: Path) -> Popen[bytes]:
        options = {
            "port": str(self._redis_port),
            "bind": "127.0.0.1",
            "dir": str(folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            # No rewrite comes in between.
            "auto-aof-rewrite-percentage": "0",
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
        command = ["redis-server", *arguments]
        return start(command, self._redis_port, folder, folder / "redis.log")

    def _wait_for_redis(self) -> None:
        command = ["redis-cli", "-p", str(self._redis_port), "ping"]
        deadline_s = time.monotonic() + START_S
        while b"PONG" not in subprocess.run(command, check=False, capture_output=True).stdout:
            if time.monotonic() > deadline_s:
                sys.exit(f"Redis was not ready within {START_S} s")
            time.sleep(0.05)

    def _write_configuration(self, folder: Path, script: str) -> None:
        paths = ", ".join(f'["{each.method}{each.path}"] = "{each.name}"' for each in OPERATIONS)
        values = {
            "folder": str(folder),
            "user": "user root;" if os.geteuid() == 0 else "",
            "script": script,
            "prices": ", ".join(f"{name} = {price}" for name, price in PRICES.items()),
            "paths": paths,
        }
        for name, port in (("nginx.lua", self._redis_port), ("nginx.conf", self.port)):
            text = (_HERE / name).read_text(encoding="utf-8").replace("{{port}}", str(port))
            for key, value in values.items():
                text = text.replace("{{" + key + "}}", value)
            (folder / name).write_text(text, encoding="utf-8")


def _encoded(command: tuple[object, ...]) -> bytes:
    parts = [each if isinstance(each, bytes) else str(each).encode() for each in command]
    return b"*%d\r\n" % len(parts) + b"".join(
        b"$%d\r\n%b\r\n" % (len(part), part) for part in parts
    )


def _commands(world: World, data: Data, script: str) -> Iterator[tuple[object, ...]]:
    yield "SCRIPT", "LOAD", script
    yield from _accounts(world)
    for (product_id, day), ready in data.analyses.items():
        yield "SET", f"analysis:{product_id}:{day}", ready
    for ready in data.orders:
        order = json.loads(ready)
        key = f"order:{SHOP.id}:{order['order_sn']}"
        yield "SET", key, ready
        yield "ZADD", f"orders:{SHOP.id}", -order["confirm_time"], key
    for ready in data.claims:
        claim = json.loads(ready)
        claimed_at = datetime.fromisoformat(claim["couponTime"]).replace(tzinfo=ZONE)
        key = f"claim:{claim['couponCode']}"
        yield "SET", key, ready
        yield "ZADD", f"claims:{CLAIM_SID}:{CLAIM_TYPE}", -int(claimed_at.timestamp()), key
    for promotion_id, listed in data.materials.items():
        slotted = [each.replace(SLOT.encode(), b"@slot@") for each in listed]
        yield "RPUSH", f"materials:{promotion_id}", *slotted
    numbers = [9_000_000_000_000 + number for number in range(world.size.numbers)]
    for first in range(0, len(numbers), 1000):
        listed = [f"YT{number}" for number in numbers[first : first + 1000]]
        yield "RPUSH", f"numbers:{WP_CODE}", *listed
    yield "SET", "waybill_form", waybill_form(data)


def _accounts(world: World) -> Iterator[tuple[object, ...]]:
    limits = {"paying": _MANY, "limited": 10, "spent": _MANY}
    for account, limit in limits.items():
        yield "SET", f"token:{getattr(world.tokens, account)}", account
        for operation in OPERATIONS:
            yield "HSET", f"permission:{account}", operation.name, limit
            for owner in (SHOP.id, USER.id) if operation.consent else ():
                yield "SADD", f"grant:{account}:{operation.name}", owner
        for unit in ("calls", "credits"):
            yield "SET", f"balance:{account}:{unit}", 0 if account == "spent" else _MANY


def waybill_form(data: Data) -> bytes:
    issued = json.loads(data.waybill)
    return (
        data.waybill.replace(issued["waybillCode"].encode(), b"@number@")
        .replace(issued["objectId"].encode(), b"@object@")
        .replace(b"SN" + NUMBER, b"@order@")
    )
