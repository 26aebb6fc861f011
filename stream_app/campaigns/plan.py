"""Plans of campaigns: the values `Stage` and `Campaign`."""

from stream_app.wire.campaigns.plan import Campaign, Stage

__all__ = ["Campaign", "Stage"]
