"""Oblivious HTTP (RFC 9458): the gateway's side, and the relay in front of it."""
