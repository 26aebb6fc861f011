"""Contributions of bounded norm, proved without opening them."""
