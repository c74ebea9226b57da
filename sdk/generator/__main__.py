"""Writes the generated files of the SDKs."""

import subprocess
import sys
from pathlib import Path

from sdk.generator import python, typescript

_RUFF = Path(sys.executable).with_name("ruff")
SDK = Path(__file__).parents[1]
_PYTHON = SDK / "python/tollway_client"
_TYPESCRIPT = SDK / "typescript/src"


def generated() -> dict[Path, str]:
    """Every generated file with its content, formatted."""
    made = {
        _PYTHON / name: _formatted(_PYTHON / name, text) for name, text in python.files().items()
    }
    return made | {_TYPESCRIPT / name: text for name, text in typescript.files().items()}


def _formatted(path: Path, source: str) -> str:
    for arguments in (["check", "--fix-only", "--quiet"], ["format", "--quiet"]):
        done = subprocess.run(  # noqa: S603 - our own linter
            [_RUFF, *arguments, "--stdin-filename", str(path), "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
        )
        source = done.stdout
    return source


if __name__ == "__main__":
    for path, content in generated().items():
        path.write_text(content, encoding="utf-8")
