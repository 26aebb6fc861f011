"""Every error of a view as a refusal of the one form (`stream_app/web/replies.py`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from stream_app.gateway.contract.reasons import OF_HTTP, HttpReason
from stream_app.web.replies import refused

log = structlog.get_logger()
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

# Status of an HTTP error that aiohttp raises -> its reason; any other is a request that is not
# understood.
_OF_STATUS = {404: HttpReason.NOT_FOUND, 405: HttpReason.METHOD}


@web.middleware
async def in_one_form(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Answer every error of a view as a refusal; one that is a defect is logged without data."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        reason = _OF_STATUS.get(error.status, HttpReason.REQUEST)
        allow = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
        return refused(error.status, reason, OF_HTTP[reason], **allow)
    except Exception as error:  # noqa: BLE001 (a defect: this client is answered, others served)
        places = _places(error)
        log.error("gateway.defect", error=type(error).__name__, places=places)
        return refused(500, HttpReason.DEFECT, OF_HTTP[HttpReason.DEFECT])


def _places(error: BaseException) -> list[str]:
    """Return file:line of the frames; the message and the variables may hold what a client sent."""
    places = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('/')[2]}:{step.tb_lineno}")
        step = step.tb_next
    return places[-5:]
