"""The kata world: a small world of agents and repositories in which everything is really executed.

``world.py`` generates repositories with seeded bugs (``templates.py``, ``mutations.py``), ``store.py`` puts
them into one bare git store. ``environment.py`` is the place an agent acts in: a work tree in a sandbox,
pytest served by a warm fork server (``testserver.py``). ``predecessor.py`` works through a task by script
and ``record.py`` records it as chat rows. ``mind.py`` is what an agent can know from its conversation,
``features.py`` what it may do next, ``policy.py`` the learned successor, ``expert.py`` the reference
successors, ``arms.py`` what each training arm learns from (``docs/science.md §13``).

Everything is a deterministic function of one seed. What only a judge may know (bugs, reference patch) is in
a sealed file that agents never read.
"""
