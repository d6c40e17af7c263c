"""Judging what a successor left of a real repository with the tests of its task (``docs/tasks.md``).

::

    results.py   what one test run says of each test, from the runner's own lines
    verdict.py   what several such runs mean together: solved, not solved, or not known and why
    settings.py  what a user says about running the tests of a repository
    bench.py     a state laid out afresh with the task's tests, run in a sandbox, remembered

Answers are read here and nowhere else outside ``instances/answers.py``; nothing of them goes into a row but counts.
"""
