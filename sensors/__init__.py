"""When something should run: new files, drift, the next round. What is new is decided by pure functions here or
in the core.

Sensors decide from the instance's own history of runs and materializations, never from a cursor alone: a cursor is
lost when a daemon dies, the history is not.
"""
