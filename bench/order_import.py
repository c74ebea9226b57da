"""How fast are orders imported, and does memory stay flat however long the file is?

For each size: makes a file of that many orders, loads it with the real command into a database of
its own, and watches the command and the processes it starts. `peak` is the sum of the most that
each of them ever had in memory (VmHWM); `own` is the most that they had at one moment without
pages of files, which the kernel takes back when it needs them. The reads are of Linux.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from bench.servers import tree

START_MS = 1_735_660_800_000
SHOPS = 20
# One order in four seconds, whatever the size: a longer file is a longer time, and no denser one.
APART_MS = 4000
WATCH_S = 0.02
REMARKS = ("送到门口", "不要香菜，谢谢", "周末送货")
TAG_NAMES = ("加急", "退款", "补发")


def records(count: int) -> Iterator[dict[str, object]]:
    """Orders in the order of their time, as a shop system would write them out: every tenth has a
    tag, every fifth a remark."""
    chance = Random(7)
    for number in range(count):
        at_ms = START_MS + number * APART_MS
        is_tagged = number % 10 == 0
        yield {
            "owner_id": str(301_580_000 + chance.randrange(SHOPS)),
            "order_sn": f"{day(at_ms)}-{chance.randrange(10**15):015}",
            "updated_at": at_ms + 60_000,
            "confirm_time": at_ms,
            "order_status": 3,
            "receiver_name": "王小明",
            "receiver_phone": f"138{number % 10**8:08}",
            "receiver_address": f"文三路{number % 900}号3幢1201室",
            "province": "浙江省",
            "city": "杭州市",
            "town": "西湖区",
            "goods_name": "加厚纯棉四件套",
            "goods_img": f"https://img.tollway.example/goods/{number % 1000}.jpg",
            "goods_spec": "1.8m 床 雾蓝",
            "goods_count": 1,
            "pay_amount": 259.5,
            "is_pre_sale": False,
            "last_ship_time": at_ms + 172_800_000,
            "remark": chance.choice(REMARKS) if number % 5 == 0 else None,
            "remark_tag": chance.randrange(1, 6) if is_tagged else None,
            "remark_tag_name": chance.choice(TAG_NAMES) if is_tagged else None,
        }


def day(at_ms: int) -> str:
    return time.strftime("%y%m%d", time.gmtime(at_ms / 1000))


def write_file(path: Path, count: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        for record in records(count):
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def memory_mb(pid: int) -> dict[str, float]:
    """What the kernel says of a process's memory; nothing if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    found = dict(line.split(":", 1) for line in lines)
    if "VmHWM" not in found:
        return {}
    return {name: int(found[name].split()[0]) / 1024 for name in ("VmHWM", "RssAnon")}


def watched_run(command: list[str], folder: Path) -> tuple[float, float, float]:
    """Runs a command; returns its seconds, and `peak` and `own` in MB."""
    began_s = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    highest: dict[int, float] = {}
    own = 0.0
    while process.poll() is None:
        now = {pid: memory_mb(pid) for pid in tree(process.pid)}
        # The last value counts: before a new process runs its own program, it is reported as large
        # as the one that started it.
        highest.update({pid: memory["VmHWM"] for pid, memory in now.items() if memory})
        own = max(own, sum(memory.get("RssAnon", 0) for memory in now.values()))
        time.sleep(WATCH_S)
    taken_s = time.perf_counter() - began_s
    if process.returncode:
        sys.exit(f"The import ended with status {process.returncode}.")
    return taken_s, sum(highest.values()), own


def measure(count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="tollway-bench-") as name:
        folder = Path(name)
        write_file(folder / "orders.jsonl", count)
        tollway = [sys.executable, "-m", "tollway"]
        target = ["--database", f"sqlite:///{folder}/orders.db"]
        subprocess.run([*tollway, "migrate", *target], cwd=folder, check=True, capture_output=True)
        command = [*tollway, "import", "orders", "orders.jsonl", *target]
        taken_s, peak, own = watched_run(command, folder)
        print(
            f"{count:,} orders: {taken_s:.1f} s, {count / taken_s:,.0f} a second, "
            f"peak {peak:.0f} MB, own {own:.0f} MB",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*", default=[100_000, 400_000])
    for size in parser.parse_args().sizes:
        measure(size)
