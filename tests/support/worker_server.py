"""The test processes of a run, forked from one that has collected all tests.

To load and collect them takes a process some seconds, and a run has six of them. This one does it
once, as a session of pytest that ends before its first test. What xdist starts as its processes are
forks of it (`worker_forks.py`): each takes up the session where it stands, and says to xdist what
one that has just collected the same tests would say.
"""

import os
import sys
from typing import Any, NoReturn

import _pytest.config
import pytest
from _pytest.tmpdir import TempPathFactory

from tests.support.fork_server import Forks, end


class Collected:
    """A plugin that serves forks in place of the tests, and in a fork runs those it is sent."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._session: pytest.Session | None = None
        self._failed: list[pytest.CollectReport] = []
        self._is_fork = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed and not self._is_fork:
            self._failed.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> None:
        """Goes on to the loop of xdist in a fork; before that, it is what makes the forks."""
        if self._is_fork:
            return
        self._session = session
        # Its files would be shared by all forks.
        session.config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
        request = Forks(self._path).serve()
        if request is None:
            os._exit(0)
        self._is_fork = True
        self._become_worker(request["arguments"][-1])

    def _become_worker(self, program: str) -> NoReturn:
        """Runs what xdist has a new process run, up to where that would make a session."""
        assert self._session is not None
        config, path = self._session.config, list(sys.path)

        def prepared(*_: object) -> pytest.Config:
            sys.path[:] = path
            return config

        _pytest.config._prepareconfig = prepared
        exec(program, {"__name__": "__main__"})
        end(0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: pytest.Config) -> int | None:
        """In a fork: the rest of the session, from its first test on."""
        if not self._is_fork:
            return None
        assert self._session is not None
        session, plugins = self._session, config.pluginmanager
        plugins.getplugin("capturemanager").start_global_capturing()
        config._tmp_path_factory = TempPathFactory.from_config(config, _ispytest=True)
        (worker,) = [each for each in plugins.get_plugins() if _is_worker(each)]
        worker.pytest_sessionstart(session)
        worker.pytest_collection()
        for report in self._failed:
            worker.pytest_collectreport(report)
        worker.pytest_collection_finish(session)
        session.exitstatus = self._run(session)
        config.hook.pytest_sessionfinish(session=session, exitstatus=session.exitstatus)
        config._ensure_unconfigure()
        return int(session.exitstatus)

    @staticmethod
    def _run(session: pytest.Session) -> pytest.ExitCode:
        try:
            session.config.hook.pytest_runtestloop(session=session)
        except (KeyboardInterrupt, pytest.exit.Exception):
            return pytest.ExitCode.INTERRUPTED
        except BaseException:
            session.config.notify_exception(pytest.ExceptionInfo.from_current())
            return pytest.ExitCode.INTERNAL_ERROR
        return pytest.ExitCode.TESTS_FAILED if session.testsfailed else pytest.ExitCode.OK


def _is_worker(plugin: Any) -> bool:
    """By its name: xdist sends the text of the class to be run."""
    return type(plugin).__name__ == "WorkerInteractor"


def main(path: str, folder: str, *arguments: str) -> None:
    os.chdir(folder)
    config = _pytest.config._prepareconfig(list(arguments), [Collected(path)])
    # A plugin is not to be loaded before pytest loads it.
    from xdist.remote import setup_config  # noqa: PLC0415

    setup_config(config, None)
    # A process of xdist to all plugins that ask.
    config.workerinput = {"workerid": "collected"}  # type: ignore[attr-defined]
    try:
        config.hook.pytest_cmdline_main(config=config)
    except pytest.UsageError as error:
        sys.exit(f"ERROR: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
