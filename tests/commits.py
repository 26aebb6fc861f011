"""Check the subjects of new commits by the rule of the `commit-msg` hook.

A tree without git, or without the commit with which the rule begins, has no new commits.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
BEGAN = "6ad9884f016434cd8fd0257a0cab8bafff932148"


def rule() -> re.Pattern[str]:
    """Return the pattern of a message, as pre-commit reads it."""
    found = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    hooks = {hook["id"]: hook for repo in found["repos"] for hook in repo["hooks"]}
    return re.compile(hooks["commit-subject"]["entry"], re.MULTILINE | re.DOTALL)


def new_subjects(root: Path = ROOT, began: str = BEGAN) -> list[str]:
    """Return the subjects of the commits since the rule began; merges are no work of a person."""
    command = ["git", "log", "--no-merges", "--format=%s", f"{began}..HEAD"]
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def main() -> int:
    """Print the subjects that break the rule."""
    wrong = [subject for subject in new_subjects() if not rule().search(f"{subject}\n")]
    for subject in wrong:
        print(f"not imperative, no capital, over 72 characters or a full stop: {subject}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
