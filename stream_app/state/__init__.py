"""The replicated state: a pure function of the log and of a specification."""
