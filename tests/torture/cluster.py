"""A cluster as docs/scale.md describes it: etcd, and two PostgreSQL servers under Patroni.

It needs Debian's packages etcd-server and patroni. Servers that were built with TLS speak it.
"""

import os
import platform
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.docs.pages import ROOT, blocks_of
from tests.support.ports import free_port
from tests.support.postgresql import run_on
from tests.support.server_files import server_folder, unprivileged

PACKAGES = {"etcd": "etcd-server", "patroni": "patroni", "haproxy": "haproxy"}
_TIMEOUT_S = 120
_PASSWORD = "not-for-the-world"
_NODE = """
scope: tollway
name: {name}
restapi: {{listen: "127.0.0.1:{rest}", connect_address: "127.0.0.1:{rest}"}}
etcd3: {{host: "127.0.0.1:{etcd}"}}
{bootstrap}
  initdb: [{{encoding: UTF8}}, {{locale: C.UTF-8}}, data-checksums]
postgresql:
  listen: "127.0.0.1:{port}"
  connect_address: "127.0.0.1:{port}"
  data_dir: {folder}/{name}
  bin_dir: {programs}
  pgpass: {folder}/{name}.pgpass
  authentication:
    superuser: {{username: postgres, password: {password}}}
    replication: {{username: replicator, password: {password}}}
    rewind: {{username: rewinder, password: {password}}}
  parameters: {{unix_socket_directories: "", {tls}}}
  pg_hba:
    - {kind} all all 127.0.0.1/32 scram-sha-256
    - {kind} replication replicator 127.0.0.1/32 scram-sha-256
"""


def has_tls(programs: Path) -> bool:
    """Whether these programs of PostgreSQL were built with TLS."""
    shown = subprocess.run([programs / "pg_config", "--configure"], check=True, capture_output=True)
    return b"ssl" in shown.stdout


class Node:
    """A server and the Patroni that runs it, as on a machine of their own."""

    def __init__(self, name: str, folder: Path, config: Callable[..., str]) -> None:
        self.name = name
        self.port = free_port()
        self._rest = f"http://127.0.0.1:{(rest := free_port())}"
        self._folder = folder
        self._config = folder / f"{name}.yml"
        self._config.write_text(config(name=name, port=self.port, rest=rest), encoding="utf-8")
        self._patroni: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._patroni = subprocess.Popen(
                ["patroni", str(self._config)],
                stdout=log,
                stderr=log,
                **unprivileged(self._folder),
            )

    def members(self) -> list[dict[str, Any]]:
        """The cluster as this node sees it."""
        try:
            return list(httpx.get(f"{self._rest}/cluster", timeout=5).json()["members"])
        except (httpx.TransportError, ValueError, KeyError):
            return []

    def switch_over(self, to: str) -> None:
        asked = {"leader": self.name, "candidate": to}
        httpx.post(f"{self._rest}/switchover", json=asked, timeout=_TIMEOUT_S).raise_for_status()

    def kill(self) -> None:
        """Everything at once, as when a machine goes away."""
        self._send(signal.SIGKILL)
        assert self._patroni is not None
        self._patroni.wait(_TIMEOUT_S)
        self._patroni = None

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """It answers nothing meanwhile, and then goes on as if nothing had happened."""
        self._send(signal.SIGSTOP)
        try:
            yield
        finally:
            self._send(signal.SIGCONT)

    def remove(self) -> None:
        if self._patroni is not None:
            self._send(signal.SIGCONT)
            self.kill()

    def _send(self, what: signal.Signals) -> None:
        for pid in self._processes():
            with suppress(ProcessLookupError):
                os.kill(pid, what)

    def _processes(self) -> list[int]:
        assert self._patroni is not None
        pids = [self._patroni.pid]
        with suppress(FileNotFoundError, IndexError):
            lines = (self._folder / self.name / "postmaster.pid").read_text().splitlines()
            pids.append(int(lines[0]))
        for pid in list(pids):
            with suppress(FileNotFoundError, ProcessLookupError):
                children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
                pids += [int(child) for child in children if int(child) not in pids]
        return pids


class Cluster:
    """etcd and two nodes, with the settings of docs/scale.md."""

    def __init__(self, programs: Path) -> None:
        self._folder = server_folder()
        self.is_encrypted = has_tls(programs)
        if self.is_encrypted:
            _write_certificate(self._folder)
        self._etcd_port = free_port()
        self._etcd = self._start_etcd()
        self.nodes = [Node(f"db{n}", self._folder, self._config(programs)) for n in (1, 2)]
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        self.url = self._url(hosts)
        try:
            # One after the other: the first makes the database.
            for number, node in enumerate(self.nodes, 1):
                node.start()
                self.wait_until(lambda n=number: len(self._running()) == n)
            self.wait_until_whole()
        except BaseException:
            self.remove()
            raise

    def leader(self) -> Node:
        """The node that takes writes."""
        found = [
            each["name"]
            for each in self._members()
            if each["role"] == "leader" and each["state"] == "running"
        ]
        return next(node for node in self.nodes if [node.name] == found)

    def other(self, node: Node) -> Node:
        return next(each for each in self.nodes if each is not node)

    def wait_until_leading(self, node: Node) -> None:
        """Until it takes writes: it has the lock of the cluster some moments earlier."""
        leads = {"name": node.name, "role": "leader", "state": "running"}
        self.wait_until(
            lambda: (
                any(leads.items() <= each.items() for each in node.members())
                and run_on(self.url_of(node), "SELECT pg_is_in_recovery()") == [(False,)]
            )
        )

    def wait_until_whole(self) -> None:
        """Until the second server has all that is committed before the commit is acknowledged."""
        self.wait_until(
            lambda: (
                {each["role"] for each in self._members()} == {"leader", "sync_standby"}
                and len(self._running()) == 2
            )
        )

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline_s = monotonic() + _TIMEOUT_S
        while not is_so():
            assert monotonic() < deadline_s, f"{self._members()}\n{self.logs()}"
            sleep(0.1)

    def url_of(self, node: Node) -> str:
        return self._url(f"127.0.0.1:{node.port}")

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(
            f"{path.name}: {path.read_text(errors='replace')[-3000:]}"
            for path in self._folder.glob("*.log")
        )

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()
        self._etcd.kill()
        self._etcd.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _members(self) -> list[dict[str, Any]]:
        return next(filter(None, (node.members() for node in self.nodes)), [])

    def _running(self) -> list[str]:
        alive = {"running", "streaming"}
        return [each["name"] for each in self._members() if each["state"] in alive]

    def _url(self, hosts: str) -> str:
        url = f"postgresql://postgres:{_PASSWORD}@{hosts}/postgres"
        tls = f"?sslmode=verify-full&sslrootcert={self._folder}/tls.crt"
        return url + tls if self.is_encrypted else url

    def _config(self, programs: Path) -> Callable[..., str]:
        (block,) = [e for e in blocks_of(ROOT / "docs/scale.md") if e.language == "yaml"]
        files = f"ssl_cert_file: {self._folder}/tls.crt, ssl_key_file: {self._folder}/tls.key"

        def config(**values: object) -> str:
            return _NODE.format(
                etcd=self._etcd_port,
                bootstrap=block.text.rstrip(),
                folder=self._folder,
                programs=programs,
                password=_PASSWORD,
                tls=f'ssl: "on", {files}' if self.is_encrypted else 'ssl: "off"',
                kind="hostssl" if self.is_encrypted else "host",
                **values,
            )

        return config

    def _start_etcd(self) -> subprocess.Popen[bytes]:
        clients, peers = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, free_port()))
        where = unprivileged(self._folder)
        # On some architectures etcd wants to be asked twice.
        where["env"] = {**where["env"], "ETCD_UNSUPPORTED_ARCH": _architecture()}  # type: ignore[dict-item]
        options = {
            "data-dir": self._folder / "etcd",
            "listen-client-urls": clients,
            "advertise-client-urls": clients,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
        }
        with (self._folder / "etcd.log").open("wb") as log:
            return subprocess.Popen(
                ["etcd", *(f"--{name}={value}" for name, value in options.items())],
                stdout=log,
                stderr=log,
                **where,
            )


def _architecture() -> str:
    return {"aarch64": "arm64", "x86_64": "amd64"}.get(platform.machine(), platform.machine())


def _write_certificate(folder: Path) -> None:
    """One that both servers use, and that is its own authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "tls.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    path = folder / "tls.key"
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    if os.geteuid() == 0:
        shutil.chown(path, folder.stat().st_uid)
        # The gateway is not that user, and reads only the certificate.
        folder.chmod(0o755)
