"""The command line `murmurec`, whose commands import their packages when they run.

    exit 0     done
         1     failed, with one sentence
         2     wrong usage: an unknown option, a value out of range, options that contradict
         75    a worker whose instance name belongs to another process now: start it again
         130   interrupted

A command is a plain function in a module of its own (`stream_app.cli.app` lists them), so
`murmurec --help` imports neither Kafka nor numpy nor numba.
"""

from __future__ import annotations

import errno
import sys

from stream_app.errors import UsageError, UserError


def main() -> None:
    """Run the command line and end the process."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; a user's mistake never ends in a traceback."""
    try:
        from stream_app.cli.app import app

        app(arguments, prog_name="murmurec")
    except UsageError as error:
        return _fail(str(error), 2)
    except UserError as refusal:
        from stream_app.cli.app import role_of

        role = role_of(arguments[0]) if arguments else ""
        return _fail(str(refusal).replace("--role ROLE", f"--role {role or 'ROLE'}"))
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return _fail(f"nothing more can be written ({error.strerror}): make room and try again")
        if error.errno not in _UNUSABLE_PATH:
            raise
        path = str(error.filename or "a file")[:200]
        return _fail(f"{path}: {error.strerror}; choose another path")
    except RuntimeError as error:  # of pathlib, for ~ and for the folders of a user
        if "home directory" not in str(error):
            raise
        return _fail("~: that user has no home directory; set HOME, or give paths without ~")
    except ModuleNotFoundError as missing:
        package = str(missing.name).partition(".")[0]
        extra = next((extra for extra, names in _EXTRAS.items() if package in names), None)
        if extra is None:
            raise
        return _fail(f"this needs {package}: pip install 'murmurec[{extra}]'")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


_EXTRAS = {
    "edge": {"sqlalchemy", "psycopg"},
    "gateway": {"aiohttp", "cryptography", "prometheus_client", "pyhpke", "structlog"},
    "server": {"aiokafka", "faust", "mode", "numba"},
}


# A path that cannot be used; an absent file has sentences of its own.
_UNUSABLE_PATH = {
    *(errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR),
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.EIO),
}


def _fail(sentence: str, code: int = 1) -> int:
    from stream_app.cli.output import notice, printable

    # A sentence repeats what was typed: it must not carry commands to the terminal.
    notice("\n".join(map(printable, f"murmurec: {sentence}".split("\n"))))
    return code
