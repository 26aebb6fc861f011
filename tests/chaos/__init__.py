"""Killing real workers on a real broker, again and again, and comparing their state with
a replica that is never killed.

    load ----> ratings --+--> worker (killed, restarted, killed, ...) --> state, cuts, digest
    reports
     1 record in 10      |                 ^                                   |
     is poison           |                 | SIGKILL at a named point          v
                         +--> reference    +------------------------------- watcher
                                |  one replica, never interrupted
                                v
                         digests of every cut == /state == every digest report == state verify

Run it with `python -m tests.chaos --kills 200` or `make chaos`. A run prints its seed, and `--seed`
repeats its plan: which point, which worker, when.
"""
