"""Kernels of the event stream: high-water marks, hash index, hold-out, ledger chain."""
