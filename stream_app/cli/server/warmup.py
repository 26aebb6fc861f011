"""`murmurec warmup`: compile what a worker needs before its first start, without a broker."""

from __future__ import annotations

import os
import time
from typing import Annotated

import typer

from stream_app.cli.options import ConfigOption, settings_from


def warmup(
    config: ConfigOption = None,
    model: Annotated[
        str | None, typer.Option(help="sketch, literal, dense or hashing. \\[env: MURMUREC_MODEL]")
    ] = None,
    index: Annotated[
        str | None, typer.Option(help="auto, exact or qolsh. \\[env: MURMUREC_INDEX]")
    ] = None,
) -> None:
    """Fill the cache of compiled kernels, so that the first start of a worker takes no minute.

    The cache belongs to this processor's model and to this version; on another one the worker
    compiles again. Without it /readyz says "compiling kernels" meanwhile.

    Example: murmurec warmup
    """
    from stream_app.agents.warmup import warm_up
    from stream_app.deployment import spec_from_settings
    from stream_app.kernels.compilation import CompilationCount

    settings = settings_from(config, None, None, None, model=model, index=index)
    began = time.monotonic()
    with CompilationCount() as count:
        warm_up(spec_from_settings(settings), settings.index, settings.code_bits)
    seconds = time.monotonic() - began
    typer.echo(
        f"{count.kernels} kernels compiled in {seconds:.1f} s, the others were in the cache "
        f"{os.environ['NUMBA_CACHE_DIR']}"
    )
