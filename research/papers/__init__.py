"""Figures of the papers, computed again beside their published numbers."""
