"""Helpers shared by tests of several subsystems."""
