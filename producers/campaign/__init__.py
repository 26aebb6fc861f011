"""The device's side of campaigns: one contribution to each stage, paid for once."""
