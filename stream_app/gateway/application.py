"""The application of a gateway, put together from the views of its parts."""

from __future__ import annotations

from aiohttp import web

from stream_app.gateway import probes, static_files
from stream_app.gateway.asking import views
from stream_app.gateway.context import Gateway, GatewaySettings
from stream_app.gateway.headers import Origins
from stream_app.gateway.intake import reports
from stream_app.gateway.readiness import watching
from stream_app.gateway.reads import demo_side, mechanisms, stream, tables
from stream_app.gateway.refusals import in_one_form
from stream_app.web.access import Access
from stream_app.wire import MAX_EVENT_BYTES

__all__ = ["Gateway", "GatewaySettings", "build"]

ATTACHED = (
    reports.attach,
    views.attach,
    probes.attach,
    mechanisms.attach,
    tables.attach,
    demo_side.attach,
    stream.attach,
    static_files.attach,
)


def build(gateway: Gateway) -> web.Application:
    """Return the application with every view attached; call it inside a running event loop."""
    settings = gateway.settings
    origins = Origins(settings.origins)
    access = Access(settings.hosts, setting="gateway_hosts")
    app = web.Application(
        client_max_size=MAX_EVENT_BYTES,
        middlewares=(
            gateway.connections.limited,
            access.checked,
            origins.preflight,
            in_one_form,
        ),
    )
    app.on_response_prepare.append(origins.added)
    app.cleanup_ctx.append(watching(gateway))

    async def end_streams(_: web.Application) -> None:
        gateway.connections.end_streams()

    app.on_shutdown.append(end_streams)
    for attach in ATTACHED:
        attach(app, gateway)
    return app
