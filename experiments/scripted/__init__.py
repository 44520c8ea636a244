"""Agents whose replies are scripted, for conformance checks, dry runs and tests."""
