"""The Faust application: the only code that imports faust, one file a stage, nothing at module
level."""
