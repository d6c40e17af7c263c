"""The lake: tables on disk as Parquet, written whole or not at all.

Layout: ``<root>/<table>/<key>=<value>/…/part.parquet``, the Hive form that Arrow and DuckDB read as it is.
One file per table and partition. A write goes to a temporary file in the same folder, is synced and then
renamed, so a reader sees the old rows or the new ones and nothing between; row order and bytes depend on
the rows alone. Each file records the hash of the inputs it was made from, which is how a repeated run
knows that there is nothing to do.

Long text is stored once: trajectories hold the events; points, views and samples refer to them.
What the columns mean is said here; how they are filled, in the room of the same name.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from handoff.errors import LakeError

if TYPE_CHECKING:
    import pyarrow.dataset as ds

ROW_GROUP = 1_000
"""Rows per Parquet row group: small enough for viewers, whatever the size of a cell."""

_KEY = pa.struct([("kind", pa.string()), ("target", pa.string())])
_STRINGS = pa.list_(pa.string())


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in columns.items()])


_STUDY_RUN: dict[str, pa.DataType] = {
    "takeover_id": pa.string(),
    "task_id": pa.string(),
    "repo": pa.string(),
    "arm": pa.string(),  # who acts
    "view": pa.string(),  # what it was given; "single session" for a run that is no takeover
    "seed": pa.int64(),  # which of the study's repetitions, from 0
    "successor": pa.string(),
    "successor_digest": pa.string(),
    "provenance": pa.string(),
    "status": pa.string(),
    "solved": pa.bool_(),
    "tests_passed": pa.int32(),
    "tests_total": pa.int32(),
    "steps": pa.int32(),
    "events": pa.int32(),
    "first_prompt_tokens": pa.int64(),
    "prompt_tokens": pa.int64(),
    "cached_tokens": pa.int64(),
    "completion_tokens": pa.int64(),
    "note_tokens": pa.int64(),
    "tokenizer": pa.string(),
    "dollars": pa.float64(),
    "destroyed_fixes": pa.int32(),
    "final_tree": pa.string(),
    "transcript": pa.string(),
    "note": pa.string(),
}
"""Columns of every run of a study, as in ``takeover_runs``."""

_SAMPLE: dict[str, pa.DataType] = {
    "sample_id": pa.string(),
    "kind": pa.string(),  # sft, preference, rl_prompt, pivot, env_prediction, …: Kind in samples/
    "split": pa.string(),
    "task_id": pa.string(),
    "repo": pa.string(),
    "trajectory_id": pa.string(),
    "point_id": pa.string(),
    "view_id": pa.string(),
    "view": pa.string(),
    "variant_id": pa.string(),
    "takeover_id": pa.string(),
    "tier": pa.string(),
    "licence": pa.string(),
    "reward": pa.float64(),
    "prompt_tokens": pa.int64(),
    "trained_tokens": pa.int64(),
    "env_tokens": pa.int64(),
    "tokenizer": pa.string(),
    "basis": pa.string(),  # solved; relabelled, recovery (table salvaged); recorded
    "gates": pa.string(),  # JSON: gate → verdict and evidence
    "chosen_because": pa.string(),
    "sample": pa.string(),  # the canonical sample, JSON (samples/)
}
"""Columns of a table of canonical samples."""
_GATE: dict[str, pa.DataType] = {
    "takeover_id": pa.string(),
    "point_id": pa.string(),
    "gate": pa.string(),
    "verdict": pa.string(),  # kept, dropped, moved, repaired
    "evidence": pa.string(),
}
"""Columns of a table of decisions about candidates."""

SCHEMAS: dict[str, pa.Schema] = {
    # One file offered for ingestion. Partition: shard.
    "sources": _schema(
        path=pa.string(),  # as given
        sha256=pa.string(),
        bytes=pa.int64(),
        framing=pa.string(),  # json, jsonl, array, parquet, eval, events, text, side file; .gz and .zst after it
        records=pa.int64(),
        trajectories=pa.int64(),
        repeated=pa.int64(),  # runs left out because the shard has them already
        quarantined=pa.int64(),  # records, or parts of one
        losses=pa.list_(  # fields that found no home; with a reason when that is on purpose
            pa.struct([("field", pa.string()), ("reason", pa.string()), ("count", pa.int64())])
        ),
    ),
    # One recorded run. Partition: shard.
    "raw_trajectories": _schema(
        trajectory_id=pa.string(),
        file=pa.string(),
        record=pa.int64(),  # 1-based position in the file
        part=pa.int32(),  # 1-based run within the record: subagents and tries may share one
        source_sha256=pa.string(),  # of the record's own bytes
        format=pa.string(),
        task_id=pa.string(),
        task=pa.string(),
        repo=pa.string(),
        base_commit=pa.string(),
        agent=pa.string(),
        author=pa.string(),  # agent, human
        model=pa.string(),
        licence=pa.string(),
        split=pa.string(),  # train, validation, test: always set (by repository when the source is silent)
        split_is_given=pa.bool_(),  # true when the source itself names the split
        tools=pa.string(),
        preamble=pa.list_(pa.struct([("role", pa.string()), ("text", pa.string())])),
        session=pa.string(),  # the source's own id of the run
        parent=pa.string(),  # session of the run whose subagent this is
        continues=pa.string(),  # session of the run this goes on from, as the source says
        copied_steps=pa.int32(),  # leading steps that the source marks as copies
        repeats=pa.string(),  # trajectory_id of the longest run of this shard that this one begins with
        repeated_steps=pa.int32(),  # its steps
        n_steps=pa.int32(),
        resolved=pa.bool_(),
        exit_status=pa.string(),
        ended=pa.string(),  # exit_status in one vocabulary: submitted, step_limit, cost_limit, …
        patch=pa.string(),
        source=pa.string(),
    ),
    # One step of it. Partition: shard. Rows of one trajectory are contiguous and in order.
    "steps": _schema(
        trajectory_id=pa.string(),
        step=pa.int32(),  # 1-based
        text=pa.string(),
        thought=pa.string(),
        actions=pa.list_(
            pa.struct(
                [("call_id", pa.string()), ("tool", pa.string()), ("arguments", pa.string()), ("is_text", pa.bool_())]
            )
        ),
        observations=pa.list_(
            pa.struct(
                [
                    ("call_id", pa.string()),
                    ("text", pa.string()),
                    ("exit_code", pa.int32()),
                    ("error", pa.bool_()),
                    ("missing", pa.string()),
                    ("is_orphan", pa.bool_()),
                    ("arrived", pa.int32()),  # the step by whose end it had come, when later than its own
                ]
            )
        ),
        after=pa.list_(pa.struct([("role", pa.string()), ("text", pa.string())])),
        keys=pa.list_(_KEY),  # docs/science.md §4, in order of execution
        boundary=pa.string(),
        model=pa.string(),
        prompt_tokens=pa.int64(),  # as the source counted
        cached_tokens=pa.int64(),
        completion_tokens=pa.int64(),
        cost=pa.float64(),
        timestamp=pa.string(),
        utc=pa.timestamp("us", "UTC"),  # the same, where its zone is known
    ),
    # One rejected record. Partition: shard.
    "quarantine": _schema(
        file=pa.string(),
        record=pa.int64(),
        field=pa.string(),
        problem=pa.string(),
        remedy=pa.string(),
        nearest=pa.string(),  # the format it looks most like, when none claims it
        raw_sha256=pa.string(),
        raw_head=pa.string(),  # the first 200 characters
    ),
    # One step's tree. Partition: shard.
    "repository_states": _schema(
        trajectory_id=pa.string(),
        step=pa.int32(),  # 0 is the base commit
        repo=pa.string(),
        commit=pa.string(),  # the state's own commit in the store; null when unverifiable
        tree=pa.string(),
        status=pa.string(),  # verified, divergent, partial, unverifiable
        is_derived=pa.bool_(),  # every effect so far follows from the recording, and nothing contradicts it
        reason=pa.string(),
    ),
    # One run's verdict, docs/science.md §2. Partition: shard. Written with `repository_states`.
    "state_verdicts": _schema(
        trajectory_id=pa.string(),
        format=pa.string(),
        repo=pa.string(),
        base=pa.string(),  # the base commit that was replayed on; null when there is none
        base_evidence=pa.string(),  # how it is known
        status=pa.string(),  # verified, divergent, partial, unverifiable
        category=pa.string(),  # why, in one word: verified, no_repository, no_base, edit_misfit, …
        reason=pa.string(),
        step=pa.int32(),  # the first that is not right or not known; null when there is none
        path=pa.string(),  # the file that shows it
        hunk=pa.string(),  # what the recording shows against what was derived
        seen_at=pa.int32(),  # the step where the recording shows it
        checkpoints=pa.int32(),  # texts of files in the recording that agree with the state
        checked_steps=pa.list_(pa.int32()),  # the step of each
        full_reads=pa.int32(),  # those of whole files
        is_derivable=pa.bool_(),  # the effect of every step can be told from its text
        opaque_steps=pa.list_(pa.int32()),  # steps whose effect cannot be
        recoveries=pa.list_(  # files whose content another part of the recording told
            pa.struct([("step", pa.int32()), ("path", pa.string()), ("how", pa.string()), ("at", pa.int32())])
        ),
        verified_steps=pa.int32(),
        derived_steps=pa.int32(),
        partial_steps=pa.int32(),
        divergent_steps=pa.int32(),
        unverifiable_steps=pa.int32(),
        submodules=pa.int32(),  # in the base's tree
        lfs_pointers=pa.int32(),
    ),
    # One fact about the world outside the repository, docs/science.md §2. Partition: shard.
    "environment_facts": _schema(
        trajectory_id=pa.string(),
        place=pa.int32(),  # order in which the facts of a run came to hold, from 1: a later one of a name replaces it
        kind=pa.string(),  # package, process, folder, variable, file, system
        name=pa.string(),
        value=pa.string(),  # secrets masked; null when only the name is known
        basis=pa.string(),  # observed, inferred
        holds=pa.bool_(),  # false: from here on it is not there, or not known any more
        step=pa.int32(),  # where the recording shows it; 0 is before the first
        seen=pa.int32(),  # the step by whose end it is known: later than `step` when the answer came late
        until=pa.int32(),  # the step by whose end it no longer holds, when that is known beforehand
    ),
    # One line of the corpus report: verdicts of one format, repository, status and category. Not partitioned.
    "corpus_report": _schema(
        format=pa.string(),
        repo=pa.string(),
        status=pa.string(),
        category=pa.string(),
        trajectories=pa.int64(),
        derivable=pa.int64(),  # runs whose every step's effect can be told from its text
        steps=pa.int64(),  # step 0, the base, among them; so for the next four
        verified_steps=pa.int64(),
        derived_steps=pa.int64(),  # those, and partial ones where all that is missing is something that shows a file
        partial_steps=pa.int64(),
        divergent_steps=pa.int64(),
        unverifiable_steps=pa.int64(),
        checkpoints=pa.int64(),
        full_reads=pa.int64(),
        recovered_by_read=pa.int64(),  # files, one for each step and path
        recovered_by_diff=pa.int64(),
        recovered_by_patch=pa.int64(),
        recovered_by_rerun=pa.int64(),
        with_submodules=pa.int64(),  # runs
        with_lfs_pointers=pa.int64(),  # runs
        trajectory_id=pa.string(),  # an example: the first by id
        reason=pa.string(),  # of that example
    ),
    # One signal of one step, docs/science.md §14. Partition: shard. Sealed: no view and no successor sees it.
    "quality_signals": _schema(
        trajectory_id=pa.string(),
        step=pa.int32(),
        signal=pa.string(),  # redundant, useless, expired, unused_evidence, loop, failed_call, …
        rule=pa.string(),  # which of the signal's rules holds
        looks_ahead=pa.bool_(),  # later steps decide it
        shown_by=pa.list_(pa.int32()),  # other steps that show it
        paths=_STRINGS,  # files, references or addresses that it is about
        reason=pa.string(),  # in words
        risk=pa.int32(),  # of risky: kinds of risk met up to this step
    ),
    # One run's quality. Partition: shard.
    "run_quality": _schema(
        trajectory_id=pa.string(),
        n_steps=pa.int32(),
        redundant=pa.int32(),  # steps with this signal; so are the next eight
        useless=pa.int32(),
        expired=pa.int32(),
        unused_evidence=pa.int32(),
        loop=pa.int32(),
        failed_call=pa.int32(),
        response_ignored=pa.int32(),
        risky=pa.int32(),
        peek=pa.int32(),
        understanding=pa.float64(),  # share of answers that were heeded; null when there was none
        n_responses=pa.int32(),
        planning=pa.float64(),  # share of calls after an answer that were no bad call; null when there was none
        n_plans=pa.int32(),
        risks=_STRINGS,  # kinds of risk met
        leak_step=pa.int32(),  # it saw, or meant to see, history beyond the base: its outcome counts for nothing
        leak=pa.string(),  # what it did there; null when not leaked
        failures=pa.list_(
            pa.struct([("category", pa.string()), ("steps", pa.list_(pa.int32())), ("reason", pa.string())])
        ),  # null when the run is not known to have failed
    ),
    # One handoff point. Partition: shard.
    "injected_handoffs": _schema(
        point_id=pa.string(),
        trajectory_id=pa.string(),
        task_id=pa.string(),
        repo=pa.string(),
        base_commit=pa.string(),
        split=pa.string(),
        author=pa.string(),  # of the work up to h: agent, human
        h=pa.int32(),
        n_steps=pa.int32(),
        labels=_STRINGS,
        tree=pa.string(),
        state_status=pa.string(),
        state_is_derived=pa.bool_(),  # as `repository_states.is_derived`
        state_class=pa.string(),  # needs_completion, already_solved, regressed, invalid; null: tests cannot run
        state_class_reason=pa.string(),  # why there is no class, where tests were to be run on it
        nodes=pa.list_(pa.struct([("node", pa.string()), ("done", pa.bool_())])),  # V and V_done, §6
        edges=pa.list_(pa.struct([("before", pa.string()), ("after", pa.string())])),
        plan=_STRINGS,  # hindsight plan from h on, §7: "kind target"
        gold=pa.list_(
            pa.struct([("step", pa.int32()), ("kind", pa.string()), ("target", pa.string()), ("necessary", pa.bool_())])
        ),  # keys of the recorded continuation, §5; null unless the run is resolved or a person's branch
        prefix_keys=pa.list_(_KEY),  # keys seen up to h whose target has not changed since, §5 rediscovery
        remaining_steps=pa.int32(),  # model calls; null, as the tokens are, for a person
        remaining_prompt_tokens=pa.int64(),
    ),
    # One view of one point. Partition: shard.
    "view_renderings": _schema(
        view_id=pa.string(),
        point_id=pa.string(),
        view=pa.string(),  # a name of views/interfaces.py; recorded at points that have it
        author=pa.string(),  # extractive, a model name, or human; null for repo and trace
        tokens=pa.int64(),
        writing_tokens=pa.int64(),
        tokenizer=pa.string(),
        text_sha256=pa.string(),
        written=pa.string(),  # stored only when a model wrote it; rule-written text is rendered on read
        writing=pa.string(),  # JSON (views/written.py); null for rules. One column, since empty ones cost too
        reason=pa.string(),  # why there is no text
    ),
    # One disturbed point. Partition: round, shard.
    "adversarial_variants": _schema(
        variant_id=pa.string(),
        point_id=pa.string(),
        kinds=_STRINGS,
        families=_STRINGS,
        parameters=pa.string(),  # JSON
        seed=pa.int64(),
        severity=pa.float64(),
        tier=pa.string(),  # easy, medium, hard, extreme
        worst_known=pa.string(),  # searched, measured, proxy; null where the point was drawn
        view=pa.string(),
        tree=pa.string(),  # the disturbed state; equal to the point's tree when only text is disturbed
        oracle=pa.string(),  # preserved, broken, not_run
        oracle_detail=pa.string(),
    ),
    # One successor run. Partition: round, shard.
    "takeover_runs": _schema(
        takeover_id=pa.string(),
        point_id=pa.string(),
        view_id=pa.string(),
        variant_id=pa.string(),  # null: undisturbed
        view=pa.string(),
        tier=pa.string(),
        purpose=pa.string(),  # collect (feeds curation) or evaluate (feeds tables only)
        arm=pa.string(),  # the successor's name in tables: A, A+opening, B, E, expert, oracle, resampled, replay
        successor=pa.string(),  # kind: policy, replay, openai, command
        successor_digest=pa.string(),
        seed=pa.int64(),
        provenance=pa.string(),  # executed, replayed, recorded
        status=pa.string(),  # submitted, error, stopped, or step_limit, token_limit, money_limit, …
        solved=pa.bool_(),
        tests_passed=pa.int32(),
        tests_total=pa.int32(),
        steps=pa.int32(),
        events=pa.int32(),
        first_prompt_tokens=pa.int64(),
        prompt_tokens=pa.int64(),
        cached_tokens=pa.int64(),
        completion_tokens=pa.int64(),
        note_tokens=pa.int64(),
        tokenizer=pa.string(),
        # As the endpoint counted, in its own tokenizer; null without one, and where it did not say at some call.
        endpoint_prompt_tokens=pa.int64(),
        endpoint_completion_tokens=pa.int64(),
        probe_prompt_tokens=pa.int64(),
        probe_completion_tokens=pa.int64(),
        dollars=pa.float64(),  # of all answered calls, the probe's included
        destroyed_fixes=pa.int32(),
        final_tree=pa.string(),
        probe_done=_STRINGS,  # V̂_done; null when there was no valid answer
        probe_plan=_STRINGS,  # P̂ elicited; null likewise
        transcript=pa.string(),  # the successor's own steps, JSON of tuple[Step, ...]
        note=pa.string(),  # what could not be had, in words
    ),
    # What one point costs a successor, docs/science.md §10. Partition: round, shard.
    "worst_points": _schema(
        trajectory_id=pa.string(),
        point_id=pa.string(),
        h=pa.int32(),
        n_steps=pa.int32(),
        arm=pa.string(),
        view=pa.string(),
        how=pa.string(),  # measured (takeovers of the round before), searched
        excess_cost=pa.float64(),  # mean (§9); of a search, of the runs that chose
        low=pa.float64(),
        high=pa.float64(),
        n_runs=pa.int32(),
        rounds=pa.int32(),  # times it was among those kept
        surrogate=pa.float64(),
        surrogate_kind=pa.string(),
        is_worst=pa.bool_(),
        is_near_worst=pa.bool_(),  # cannot be told from the worst; null: run too seldom to say
        confirmed_cost=pa.float64(),  # by fresh runs; of the worst alone
        confirmed_low=pa.float64(),
        confirmed_high=pa.float64(),
        search_runs=pa.int32(),  # takeovers that chose, of the whole search
        uniform_runs=pa.int32(),  # what running every step as often as the worst would have taken
        unsolvable=pa.list_(pa.int32()),  # steps of this run that the successor did not solve with the whole trace
        unjudged=pa.list_(pa.int32()),  # steps of which that is not known: not all takeovers there could be judged
    ),
    # One run's measure. Partition: round, shard.
    "diagnostics": _schema(
        takeover_id=pa.string(),
        metric=pa.string(),
        value=pa.float64(),
        numerator=pa.float64(),
        denominator=pa.float64(),
        reason=pa.string(),  # why there is no value
    ),
    # One cell and metric. Partition: round.
    "robustness": _schema(
        split=pa.string(),
        arm=pa.string(),
        view=pa.string(),
        label=pa.string(),  # a point label, or "all"
        tier=pa.string(),  # a tier, or "all"
        metric=pa.string(),
        value=pa.float64(),
        low=pa.float64(),
        high=pa.float64(),
        n_runs=pa.int32(),
        n_points=pa.int32(),
        n_tasks=pa.int32(),
        n_effective=pa.float64(),  # of a rate: runs corrected for the spread between tasks
        coverage=pa.float64(),  # share of runs with a value
        reason=pa.string(),
    ),
    # What successors score in each tier, and against the tier before, docs/science.md §10. Partition: round.
    "tiers": _schema(
        split=pa.string(),
        arm=pa.string(),
        tier=pa.string(),
        n_runs=pa.int32(),
        n_tasks=pa.int32(),
        solve_rate=pa.float64(),
        solve_rate_low=pa.float64(),
        solve_rate_high=pa.float64(),
        hrs=pa.float64(),
        hrs_low=pa.float64(),
        hrs_high=pa.float64(),
        excess_cost=pa.float64(),
        excess_cost_low=pa.float64(),
        excess_cost_high=pa.float64(),
        context=pa.float64(),  # 1 − E_CR
        state=pa.float64(),  # P_SI
        plan=pa.float64(),  # P_PC
        order=pa.string(),  # first, harder, easier, not told apart, not compared
        fall=pa.float64(),  # HRS of the tier before minus this one's, over tasks that both have
        fall_low=pa.float64(),
        fall_high=pa.float64(),
        why=pa.string(),
        worst_known=pa.string(),  # how worst points are known, with counts; null where none were asked for
        next_share=pa.float64(),  # of the next round's disturbed training points; on validation, of who steers
        next_why=pa.string(),
    ),
    # One canonical training sample. Partition: round.
    "curated_training_set": _schema(**_SAMPLE),
    # The same, made of the rest of a recorded run. Partition: shard.
    "recorded_samples": _schema(**_SAMPLE),
    # One decision about a point of a recorded run, for the funnel. Partition: shard. Written with `recorded_samples`.
    "recorded_funnel": _schema(**_GATE),
    # Another move at a step of a failed takeover, docs/science.md §11. Partition: round, shard. With `takeover_runs`,
    # where the settings ask for it.
    "branches": _schema(
        base_id=pa.string(),  # the failed takeover
        point_id=pa.string(),
        arm=pa.string(),
        view=pa.string(),
        step=pa.int32(),  # where it departs
        move=pa.string(),  # instead of what was done
        chance=pa.float64(),  # that the policy gave it
        entropy=pa.float64(),  # of the policy at that step, nats
        verdict=pa.string(),  # tried, pruned (a near-duplicate), over budget
        takeover_id=pa.string(),  # of the branch; null: not executed
        solved=pa.bool_(),
        tests_passed=pa.int32(),
        steps=pa.int32(),
        is_kept=pa.bool_(),  # the best of those that solved: it is among `takeover_runs` too
    ),
    # What runs give beside their solves, docs/science.md §11. Partition: round, shard.
    "salvaged": _schema(
        salvage_id=pa.string(),
        basis=pa.string(),  # relabelled (a smaller task that a failed takeover solved), recovery (out of a wrong turn)
        takeover_id=pa.string(),  # null: of a recorded run
        trajectory_id=pa.string(),
        point_id=pa.string(),
        task_id=pa.string(),
        split=pa.string(),
        view=pa.string(),
        view_id=pa.string(),
        first_step=pa.int32(),  # of what is learned: the takeover's own steps, or the recorded run's
        last_step=pa.int32(),
        verdict=pa.string(),  # kept, dropped
        reason=pa.string(),
        goals=_STRINGS,  # tests that it made pass; where there are none, files that it put right
        statement=pa.string(),  # of the smaller task
        failing_before=pa.int32(),
        failing_after=pa.int32(),
        evidence=pa.string(),  # JSON
    ),
    # One rejected candidate, for the funnel. Partition: round.
    "curation_funnel": _schema(**_GATE),
    # One exported file. Partition: round.
    "exports": _schema(
        format=pa.string(),
        path=pa.string(),  # relative to the exports folder
        sha256=pa.string(),
        rows=pa.int64(),
        bytes=pa.int64(),
        sample_ids=_STRINGS,
        losses=pa.string(),  # JSON: every lossy change with its count
    ),
    # One trained policy. Partition: round.
    "policy": _schema(
        policy_id=pa.string(),
        arm=pa.string(),
        path=pa.string(),  # relative to the policies folder
        n_demonstrations=pa.int32(),
        n_labels=pa.int32(),
        mix=pa.float64(),  # share of single-session data
        seed=pa.int64(),
        train_loss=pa.float64(),
        train_accuracy=pa.float64(),
        detail=pa.string(),  # JSON
    ),
    # One run of a debt study: a takeover of a lake point under one view. Partition: study. Written with `handoff_debt`.
    "debt_runs": _schema(
        **_STUDY_RUN,
        point_id=pa.string(),
        labels=_STRINGS,  # of the point: those that the study asks for
    ),
    # One figure of a view against the bare repository, docs/science.md §9. Partition: study.
    "handoff_debt": _schema(
        arm=pa.string(),
        view=pa.string(),
        label=pa.string(),  # a point label, or "all"
        metric=pa.string(),  # events, steps, prompt_tokens, …, total_tokens; solved
        value=pa.float64(),  # the median under the view; of `solved` the rate
        reference=pa.float64(),  # the same under repo, on the same points
        ratio_of_medians=pa.float64(),
        ratio_low=pa.float64(),  # 95 %, bootstrapped by task; so for the other intervals
        ratio_high=pa.float64(),
        median_of_ratios=pa.float64(),
        median_low=pa.float64(),
        median_high=pa.float64(),
        reason=pa.string(),  # why there is no ratio
        gained=pa.int32(),  # of `solved`: points solved under the view and not under repo
        lost=pa.int32(),  # the other way round
        p_value=pa.float64(),  # exact McNemar
        n_runs=pa.int32(),  # matched pairs
        n_points=pa.int32(),
        n_tasks=pa.int32(),
        unmatched=pa.int32(),
        note=pa.string(),  # what was unmatched, and why
    ),
    # One run of a tax study: a single session, or what was switched from one. Partition: study. With `handoff_tax`.
    "tax_runs": _schema(
        **_STUDY_RUN,
        capability=pa.string(),  # of who acts: low, high
        direction=pa.string(),  # escalation, downshift; null for a single session
        source_id=pa.string(),  # takeover_id of the single session that was cut; null for one
        h=pa.int32(),  # null for a single session
        n_steps=pa.int32(),  # of the source; null likewise
        cells=pa.list_(  # where the run counts: equal runs are made once
            pa.struct(
                [
                    ("timing", pa.string()),
                    ("interface", pa.string()),
                    ("author", pa.string()),  # who wrote what crossed: extractive, or a model's name
                    ("note_tokens_low", pa.int64()),  # spent by the low-capability model on what crossed
                    ("note_tokens_high", pa.int64()),
                    ("note_tokens_other", pa.int64()),  # by a writer that is neither
                    ("note_dollars", pa.float64()),
                ]
            )
        ),
        prefix_tokens=pa.int64(),  # prompt and completion tokens of the source up to h
        prefix_dollars=pa.float64(),
    ),
    # One cell of a tax study, docs/science.md §9. Partition: study.
    "handoff_tax": _schema(
        low=pa.string(),
        high=pa.string(),
        unit=pa.string(),  # of costs: tokens, dollars
        direction=pa.string(),
        timing=pa.string(),  # or "all"
        interface=pa.string(),
        author=pa.string(),  # extractive, a model's name, or null where nobody writes
        quality=pa.float64(),
        quality_lc=pa.float64(),  # of the low-capability model alone on the same tasks
        quality_hc=pa.float64(),
        cost=pa.float64(),
        cost_lc=pa.float64(),
        cost_hc=pa.float64(),
        qrec=pa.float64(),
        qrec_low=pa.float64(),
        qrec_high=pa.float64(),
        qrec_reason=pa.string(),
        csret=pa.float64(),
        csret_low=pa.float64(),
        csret_high=pa.float64(),
        csret_reason=pa.string(),
        tax=pa.float64(),  # 1 − qrec
        is_on_front=pa.bool_(),
        is_recommended=pa.bool_(),
        not_separated=_STRINGS,  # interfaces that may be as good as the recommended one
        n_runs=pa.int32(),
        n_tasks=pa.int32(),
        unmatched=pa.int32(),
        omitted=pa.int32(),  # source sessions that have no such timing
        note=pa.string(),
    ),
    # One round's outcome. Partition: round.
    "round_report": _schema(
        round=pa.int32(),
        path=pa.string(),
        summary=pa.string(),  # JSON
    ),
}


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """What one write left behind."""

    table: str
    partition: dict[str, str]
    rows: int
    bytes: int
    path: str
    digest: str
    """SHA-256 of the file's bytes."""
    is_new: bool
    """False when the rows on disk already came from the same inputs."""


_FEW = 64
"""Rows of long texts that are held at once."""
_PARTITION_VALUE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Lake:
    """Tables under one folder. All methods raise ``LakeError`` with the table and partition in it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    # -- places ---------------------------------------------------------------------------------

    def path(self, table: str, **partition: str) -> Path:
        """Where one partition's file lies. Values are plain names: nothing can climb out of the lake."""
        if table not in SCHEMAS:
            raise LakeError(f"no table {table!r}; tables are {', '.join(sorted(SCHEMAS))}")
        folder = self.root / table
        for key in sorted(partition):
            value = partition[key]
            if not _PARTITION_VALUE.fullmatch(value):
                raise LakeError(f"{table}: {value!r} cannot name a {key}; use letters, digits, '.', '_' and '-'")
            folder = folder / f"{key}={value}"
        return folder / "part.parquet"

    def partitions(self, table: str) -> list[dict[str, str]]:
        """Every partition that has rows on disk (or was written empty), sorted."""
        base = self.root / table
        found = []
        for file in sorted(base.rglob("part.parquet")):
            keys = file.parent.relative_to(base).parts
            found.append(dict(part.split("=", 1) for part in keys))
        return found

    # -- writing --------------------------------------------------------------------------------

    def write(
        self,
        table: str,
        rows: Iterable[Mapping[str, Any]] | pa.Table | Iterator[pa.RecordBatch],
        *,
        inputs: str,
        **partition: str,
    ) -> Written:
        """Replace one partition. ``inputs`` names what the rows were made from (``identify("i", …)``).

        ``rows`` may be an iterator of record batches, which is written as it comes and never held whole.
        """
        target = self.path(table, **partition)
        schema = SCHEMAS[table].with_metadata({"handoff.inputs": inputs, "handoff.table": table})
        count = 0
        try:
            with scratch_file(target.parent) as scratch:
                with pq.ParquetWriter(scratch, schema, **_storage(table)) as writer:
                    for batch in _batches(rows, SCHEMAS[table]):
                        count += batch.num_rows
                        writer.write_batch(batch.replace_schema_metadata(schema.metadata), row_group_size=ROW_GROUP)
                size, digest = seal(scratch, target)
        except OSError as error:
            raise _explain(error, table, target) from error
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise LakeError(f"{table} {partition}: a row does not fit the schema: {error}") from error
        return Written(
            table=table, partition=dict(partition), rows=count, bytes=size, path=str(target), digest=digest, is_new=True
        )

    def current(self, table: str, *, inputs: str, **partition: str) -> Written | None:
        """What is on disk, if it was made from ``inputs``; else ``None``."""
        path = self.path(table, **partition)
        if self.inputs(table, **partition) != inputs:
            return None
        return Written(
            table=table,
            partition=dict(partition),
            rows=pq.read_metadata(path).num_rows,
            bytes=path.stat().st_size,
            path=str(path),
            digest=_sha256(path),
            is_new=False,
        )

    def inputs(self, table: str, **partition: str) -> str | None:
        """The ``inputs`` a partition was written with; ``None`` when it does not exist."""
        path = self.path(table, **partition)
        try:
            metadata = pq.read_schema(path).metadata or {}
        except FileNotFoundError:
            return None
        except (OSError, pa.ArrowInvalid) as error:
            raise LakeError(f"{path} cannot be read as Parquet ({error}); delete it and run again") from error
        return metadata.get(b"handoff.inputs", b"").decode()

    def digest(self, table: str, **partition: str) -> str:
        """SHA-256 of a partition's bytes, or of nothing when it does not exist."""
        path = self.path(table, **partition)
        return _sha256(path) if path.exists() else hashlib.sha256().hexdigest()

    # -- reading --------------------------------------------------------------------------------

    def read(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        where: ds.Expression | None = None,
        **partition: str,
    ) -> pa.Table:
        """Rows of the partitions that match (all when none is named), in partition order, keys as columns."""
        import pyarrow.dataset as ds  # it loads pandas, which takes longer than all else: only readers of tables wait

        schema = SCHEMAS[table]
        tables = []
        for found in self.partitions(table):
            if any(found.get(key) != value for key, value in partition.items()):
                continue
            data = ds.dataset(self.path(table, **found), schema=schema)
            chosen = [c for c in columns if c in schema.names] if columns is not None else None
            rows = data.to_table(columns=chosen, filter=where)
            for key in sorted(found):
                if key not in schema.names and (columns is None or key in columns):
                    rows = rows.append_column(key, pa.array([found[key]] * rows.num_rows, pa.string()))
            tables.append(rows)
        if not tables:
            empty = schema.empty_table()
            return empty.select([c for c in columns if c in schema.names]) if columns is not None else empty
        return pa.concat_tables(tables, promote_options="default")

    def column(self, table: str, name: str, **partition: str) -> Iterator[Any]:
        """The values of one column of one partition, in order, read a few at a time; none when there is no such one."""
        path = self.path(table, **partition)
        if path.exists():
            for batch in pq.ParquetFile(path).iter_batches(batch_size=_FEW, columns=[name]):
                yield from batch.column(0).to_pylist()

    def count(self, table: str, **partition: str) -> int:
        """How many rows there are, from the files' footers alone."""
        return sum(
            pq.read_metadata(self.path(table, **found)).num_rows
            for found in self.partitions(table)
            if all(found.get(key) == value for key, value in partition.items())
        )

    def rows(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        where: ds.Expression | None = None,
        **partition: str,
    ) -> list[dict[str, Any]]:
        """``read`` as plain dictionaries; for tables of modest size."""
        return self.read(table, columns, where, **partition).to_pylist()


_ENCODINGS: dict[str, dict[str, str]] = {
    # Four rows a point at every step: identifiers whose neighbours begin alike, and counts that rise with h.
    "view_renderings": {"view_id": "DELTA_BYTE_ARRAY", "point_id": "DELTA_BYTE_ARRAY", "tokens": "DELTA_BINARY_PACKED"},
}
"""Columns stored as differences, where that takes a quarter off a table that has to stay small."""


def _storage(table: str) -> dict[str, Any]:
    """How a table's columns are written."""
    options: dict[str, Any] = {"compression": "zstd", "compression_level": 3}
    if encodings := _ENCODINGS.get(table):
        options["column_encoding"] = encodings
        options["use_dictionary"] = ["view", "author", "writing_tokens", "tokenizer"]  # of a null column it costs space
        options["write_statistics"] = [name for name in encodings if name.endswith("_id")]  # what look-ups filter by
    return options


def seal(scratch: Path, target: Path) -> tuple[int, str]:
    """Sync a finished scratch file and rename it into place; its size and SHA-256."""
    with scratch.open("rb") as file:
        os.fsync(file.fileno())
    digest = _sha256(scratch)
    size = scratch.stat().st_size
    scratch.replace(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return size, digest


@contextmanager
def scratch_file(folder: Path) -> Iterator[Path]:
    """A new name in ``folder`` to write aside, gone afterwards unless it was renamed.

    Its writer holds a lock on it, which the kernel lets go when that process is killed: so what killed writers left
    is known as such, and the next writer in the folder removes it.
    """
    make_folder(folder)
    for left in sorted(folder.glob(".*.partial")):
        _remove_abandoned(left)
    path = folder / f".{secrets.token_hex(8)}.partial"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield path
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _remove_abandoned(path: Path) -> None:
    with suppress(OSError), path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # refused while its writer lives
        path.unlink()


def make_folder(folder: Path) -> None:
    """A folder with all above it; ``LakeError`` when it cannot be had."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _explain(error, "data folder", folder / "…") from error


def write_file(target: Path, data: bytes) -> str:
    """Write a whole file or nothing; its SHA-256. The one way this project writes files beside tables."""
    try:
        with scratch_file(target.parent) as scratch:
            scratch.write_bytes(data)
            return seal(scratch, target)[1]
    except OSError as error:
        raise _explain(error, target.name, target) from error


def _batches(
    rows: Iterable[Mapping[str, Any]] | pa.Table | Iterator[pa.RecordBatch], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    if isinstance(rows, pa.Table):
        yield from rows.select(schema.names).cast(schema).to_batches()
        return
    pending: list[Mapping[str, Any]] = []
    for row in rows:
        if isinstance(row, pa.RecordBatch):
            yield row
            continue
        pending.append(row)
        if len(pending) == ROW_GROUP:
            yield pa.RecordBatch.from_pylist(pending, schema=schema)
            pending = []
    if pending:
        yield pa.RecordBatch.from_pylist(pending, schema=schema)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _explain(error: OSError, table: str, target: Path) -> LakeError:
    if error.errno == errno.ENOSPC:
        return LakeError(
            f"{table}: the disk that holds {target.parent} is full; free space and run again (nothing was half written)"
        )
    why = error.strerror or error
    return LakeError(f"{table}: cannot write {target}: {why}; choose another data folder or mend this one")
