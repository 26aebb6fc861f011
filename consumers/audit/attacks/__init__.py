"""Attacks on whole people: enrolment, linking and rebuilding of profiles."""
