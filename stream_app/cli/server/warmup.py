"""`murmurec warmup`: compile a worker's kernels before its first start, without a broker."""

from __future__ import annotations

import os
import time

from stream_app.cli.options import ConfigOption, ModelOption, settings_from
from stream_app.cli.output import plural, say


def warmup(
    config: ConfigOption = None,
    model: ModelOption = None,
) -> None:
    """Fill the cache of compiled kernels, so that a worker starts without compiling.

    The cache is valid for one processor model and one version; elsewhere the worker compiles
    again, and /readyz shows "compiling kernels" meanwhile.

    Example: murmurec warmup
    """
    from stream_app.agents.warmup import warm_up
    from stream_app.deployment import spec_from_settings
    from stream_app.kernels.compilation import CompilationCount

    settings = settings_from(config, None, None, None, model=model)
    began = time.monotonic()
    with CompilationCount() as count:
        warm_up(spec_from_settings(settings))
    seconds = time.monotonic() - began
    say(
        f"{plural(count.kernels, 'kernel')} compiled in {seconds:.1f} s; the others were in the "
        f"cache {os.environ['NUMBA_CACHE_DIR']}"
    )
