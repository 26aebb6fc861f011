"""`murmurec device run`: the device as a program that runs.

run_options  the options, and which go together
start      what the options mean: accounts, sources, connection
scope      the cells on which the accounts report
budgets    whether the plans and the budgets of the accounts hold what is reported
campaigns  its part in campaigns
"""

from __future__ import annotations

import typer

from stream_app.cli.device.running.run_options import RunOptions
from stream_app.cli.options import Cluster
from stream_app.errors import UsageError


def run(
    context: typer.Context,
    cluster: Cluster,
    options: RunOptions,
) -> None:
    """Take ratings and report for the enrolled accounts, until stopped.

    Example: murmurec device run --user ann --watch ratings.csv
    """
    from stream_app.cli.device.running.start import run_device

    if options.planned:
        _check_only_plan(context)
    run_device(options, cluster.settings())


def _check_only_plan(context: typer.Context) -> None:
    """Refuse a mechanism beside the plan, even the default one: it would be passed over."""
    names = ("mechanism", "epsilon", "thinning")
    given = [f"--{name}" for name in names if _is_given(context, name)]
    if given:
        raise UsageError(
            "--plan: the accounts report under the mechanism of their plan; leave "
            f"{' and '.join(given)} out"
        )


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name not in ("DEFAULT", "DEFAULT_MAP")
