"""The units say what systemd understands and what this version of the command line can do."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from tests.deploy.units import SERVICES, UNITS, Installed, parse
from tollway.cli.main import app
from tollway.settings import Settings

pytestmark = pytest.mark.sqlite

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)
# The most that may be left open, of 100, as systemd counts it.
_EXPOSURE_MAX = "25"


def _known_keys() -> dict[str, set[str]]:
    hardening = "NoNewPrivileges CapabilityBoundingSet LockPersonality RemoveIPC"
    hardening += " SystemCallArchitectures SystemCallFilter SystemCallErrorNumber"
    for subject in ["System", "Home", "Proc", "Clock", "Hostname", "ControlGroups"]:
        hardening += f" Protect{subject}"
    for subject in ["Logs", "Modules", "Tunables"]:
        hardening += f" ProtectKernel{subject}"
    for subject in ["AddressFamilies", "Namespaces", "Realtime", "SUIDSGID"]:
        hardening += f" Restrict{subject}"
    service = "Type User Group StateDirectory StateDirectoryMode WorkingDirectory UMask"
    service += " TimeoutStartSec WatchdogSec"
    service += " Environment EnvironmentFile LoadCredential ExecStart KillSignal KillMode"
    service += " TimeoutStopSec Restart RestartSec LimitNOFILE Nice IOSchedulingClass"
    service += f" PrivateTmp PrivateDevices {hardening}"
    return {
        "Unit": {"Description", "After", "Wants", "ConditionPathExists", "StartLimitIntervalSec"},
        "Service": set(service.split()),
        "Socket": {"ListenStream"},
        "Timer": {"OnCalendar", "RandomizedDelaySec", "Persistent"},
        "Install": {"WantedBy"},
    }


def _unknown(text: str) -> list[str]:
    known = _known_keys()
    return [
        f"[{section}] {key}"
        for section, keys in parse(text).items()
        for key in keys
        if key not in known.get(section, ())
    ]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_every_section_and_key_is_known(path: Path) -> None:
    assert _unknown(path.read_text(encoding="utf-8")) == []


def test_a_key_that_is_mistyped_is_found() -> None:
    text = SERVICES[0].read_text(encoding="utf-8").replace("ProtectSystem=", "ProtectSystems=")
    assert _unknown(text) == ["[Service] ProtectSystems"]


def _command_lines() -> list[tuple[str, list[str]]]:
    found = []
    for path in SERVICES:
        for line in parse(path.read_text(encoding="utf-8"))["Service"]["ExecStart"]:
            words = shlex.split(re.sub(r"\$\$\([^)]*\)", "NOW", line))
            words = shlex.split(words[2]) if words[:2] == ["/bin/sh", "-c"] else words
            if any(word.endswith("/bin/tollway") for word in words):
                start = next(i for i, word in enumerate(words) if word.endswith("/bin/tollway"))
                found.append((path.name, words[start + 1 :]))
    return found


def _is_understood(words: list[str]) -> bool:
    """Whether the command line takes these words; nothing is run."""
    group = get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    command = group.commands.get(words[0])
    if command is None:
        return False
    try:
        command.make_context(words[0], [word.replace("%i", "8081") for word in words[1:]])
    except typer.TyperException:
        return False
    return True


def test_every_command_and_option_exists() -> None:
    lines = _command_lines()
    assert {words[0] for _, words in lines} == {"serve", "backup", "audit"}
    for name, words in lines:
        assert _is_understood(words), f"{name}: tollway {' '.join(words)}"
    assert not _is_understood(["serve", "--prot", "8081"])


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_what_serves_is_given_time_to_stop_and_started_again_without_an_end(path: Path) -> None:
    sections = parse(path.read_text(encoding="utf-8"))
    service = sections["Service"]
    if service["Type"] == ["notify"]:
        assert sections["Unit"]["StartLimitIntervalSec"] == ["0"]
        assert int(service["TimeoutStopSec"][0]) > Settings.shutdown_timeout_s
        assert service["KillSignal"] == ["SIGTERM"]
        assert service["Restart"] == ["on-failure"]


def test_all_services_are_shut_in_alike() -> None:
    blocks = [
        path.read_text(encoding="utf-8").partition("# What it cannot do")[2] for path in SERVICES
    ]
    assert len({block.partition("\n\n")[0].strip() for block in blocks}) == 1


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_its_home_is_a_folder_that_it_can_look_into(path: Path) -> None:
    """The driver of PostgreSQL looks for files of TLS at home, and fails if it may not."""
    service = parse(path.read_text(encoding="utf-8"))["Service"]
    assert service["ProtectHome"] == ["yes"]
    state = service["StateDirectory"][0].split()[0]
    assert f"HOME=/var/lib/{state}" in service["Environment"]


def test_every_timer_has_its_service() -> None:
    for path in UNITS:
        if path.suffix == ".timer":
            assert path.with_suffix(".service") in SERVICES


def _verified(folder: Path) -> subprocess.CompletedProcess[str]:
    names = [path.name.replace("@.", "@8081.") for path in UNITS]
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *names],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@needs_systemd
def test_systemd_has_nothing_to_say_against_them(tmp_path: Path) -> None:
    place = Installed(tmp_path)
    node = (place.units / "tollway@.service").read_text(encoding="utf-8")
    (place.units / "tollway@8081.service").write_text(node, encoding="utf-8")
    result = _verified(place.units)
    assert (result.returncode, result.stderr) == (0, "")
    service = place.units / "tollway.service"
    service.write_text(service.read_text(encoding="utf-8").replace("Restart=", "Restarts="))
    assert "Restarts" in _verified(place.units).stderr


@needs_systemd
@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_little_is_left_open(path: Path, tmp_path: Path) -> None:
    unit = tmp_path / path.name.replace("@.", "@8081.")
    unit.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    check = ["systemd-analyze", "security", "--offline=yes", f"--threshold={_EXPOSURE_MAX}"]
    result = subprocess.run([*check, str(unit)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-500:] + result.stderr
