"""Kernels of the trainers that add noise to what they learn."""
