"""Editors written again, plainly, on real files: what a replay in memory is compared with.

They are made from what the real tools do and checked against what those left (``tests/fixtures/editors``). Nothing here
uses the code under test.
"""
