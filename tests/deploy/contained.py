"""Become a service of `containers.py`: build its root, enter it, drop every right, run its command.

Run as root in a mount namespace of its own; the argument is the plan, as JSON. It uses the standard
library alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path


def mount(*arguments: str) -> None:
    """Call mount(8)."""
    subprocess.run(["/usr/bin/mount", *arguments], check=True)


def bind(source: str, target: Path) -> None:
    """Show a file or a folder at another place."""
    if Path(source).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount("--rbind", source, str(target))


def main() -> None:
    """Read the plan and become its command."""
    plan = json.loads(sys.argv[1])
    root = Path(plan["root"])
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(root))
    # First, since the interpreter's own folder may lie below one of them.
    for target in plan["tmpfs"]:
        (root / target[1:]).mkdir(parents=True, exist_ok=True)
        mount("-t", "tmpfs", "-o", "mode=1777,size=64m", "tmpfs", str(root / target[1:]))
    for name in plan["system"]:
        place = Path("/", name)
        if place.is_symlink():
            (root / name).symlink_to(place.readlink())
        elif place.exists():
            bind(str(place), root / name)
    shutil.copytree("/etc", root / "etc", symlinks=True, ignore=shutil.ignore_patterns("shadow*"))
    (root / "etc" / "hosts").write_text(plan["hosts"])
    for path, text in plan["commands"].items():
        command = root / path[1:]
        command.parent.mkdir(parents=True, exist_ok=True)
        command.write_text(text)
        command.chmod(0o755)
    for target, source in plan["binds"].items():
        bind(source, root / target[1:])
        mount("-o", "remount,bind,ro", str(root / target[1:]))
    for target, source in plan["writable"].items():
        bind(source, root / target[1:])
    mount("-o", "remount,ro", str(root))
    os.chroot(root)
    os.chdir("/")
    user, _, group = plan["user"].partition(":")
    rights = [f"--reuid={user}", f"--regid={group or user}", "--clear-groups", "--no-new-privs"]
    dropped = ["--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
    leash = ["--pdeathsig=KILL"]  # changed users end the leash of before
    os.execve(
        "/usr/bin/setpriv",
        ["setpriv", *rights, *dropped, *leash, "--", *plan["command"]],
        plan["environment"],
    )


if __name__ == "__main__":
    main()
