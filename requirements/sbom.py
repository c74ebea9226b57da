"""The list of what a gateway installs, as CycloneDX JSON, and the check of it for known holes.

`make sbom` prints the list: every package of `runtime.lock` that is installed here, with its
version, licence and what it needs. `make vulnerabilities` asks the open database of vulnerabilities
(OSV) about each of them; it cannot do so without a network, and says so.
"""

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import httpx

LOCK = Path(__file__).with_name("runtime.lock")
OSV_URL = "https://api.osv.dev/v1/querybatch"
_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_TIMEOUT_S = 20


def locked() -> dict[str, str]:
    """The versions of all packages of the lock, by name."""
    return {_plain(name): version for name, version in _LOCKED.findall(LOCK.read_text("utf-8"))}


def sbom() -> dict[str, Any]:
    """The list as CycloneDX 1.6."""
    packages = locked()
    components, dependencies = [], []
    for name, version in sorted(packages.items()):
        reference = f"pkg:pypi/{name}@{version}"
        component: dict[str, Any] = {
            "type": "library",
            "bom-ref": reference,
            "name": name,
            "version": version,
            "purl": reference,
        }
        found = _installed(name)
        if found is None:
            # The lock is for every system; this package is for another one.
            component["scope"] = "optional"
        else:
            component["licenses"] = _licences(found)
            needed = {_plain(_NAME.match(each)[0]) for each in found.requires or ()}  # type: ignore[index]
            on = [f"pkg:pypi/{each}@{packages[each]}" for each in sorted(needed & set(packages))]
            dependencies.append({"ref": reference, "dependsOn": on})
        components.append(component)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, LOCK.read_text('utf-8'))}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "tollway"}},
        "components": components,
        "dependencies": dependencies,
    }


def known_vulnerabilities(url: str = OSV_URL) -> dict[str, list[str]]:
    """The ids of known vulnerabilities, by package; httpx.HTTPError if they cannot be had."""
    packages = sorted(locked().items())
    queries = [
        {"package": {"name": name, "ecosystem": "PyPI"}, "version": version}
        for name, version in packages
    ]
    answer = httpx.post(url, json={"queries": queries}, timeout=_TIMEOUT_S).raise_for_status()
    return {
        f"{name} {version}": [each["id"] for each in result["vulns"]]
        for (name, version), result in zip(packages, answer.json()["results"], strict=True)
        if result.get("vulns")
    }


def check(url: str = OSV_URL) -> tuple[int, str]:
    """The status to end with, and what to print."""
    try:
        found = known_vulnerabilities(url)
    except (httpx.HTTPError, ValueError, KeyError) as error:
        where = httpx.URL(url).host
        return 2, f"Not checked: the list of vulnerabilities at {where} cannot be read ({error})."
    if not found:
        return 0, f"No known vulnerability in {len(locked())} packages."
    return 1, "\n".join(f"{package}: {', '.join(ids)}" for package, ids in found.items())


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _licences(found: Distribution) -> list[dict[str, Any]]:
    """As the package states them: an expression, classifiers, or the first line of a text."""
    of = found.metadata
    if "License-Expression" in of:
        return [{"expression": of["License-Expression"]}]
    classified = [
        each.rsplit(" :: ", 1)[1]
        for each in of.get_all("Classifier") or ()
        if each.startswith("License ::") and each.count(" :: ") > 1
    ]
    named = classified or [(of.get("License") or "unknown").strip().splitlines()[0]]
    return [{"license": {"name": each}} for each in named]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        status, text = check()
        sys.stderr.write(f"{text}\n")
        return status
    json.dump(sbom(), sys.stdout, indent=2)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
