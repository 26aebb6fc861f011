"""Commands of the papers, and the parts of public commands that measure their systems."""
