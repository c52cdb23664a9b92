# SPDX-License-Identifier: Apache-2.0
"""Builds with one rule broken each, and the check that has to notice.

A mutant is a list of edits: file, text that stands there exactly once, and
what it becomes. A check is a unit test (binary, test) or a behaviour test."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    rule: str
    edits: tuple
    check: str  # "unit BINARY: TEST", or a test file and a test

    @property
    def is_unit(self):
        return self.check.startswith("unit ")

    @property
    def unit(self):
        """(binary, test)"""
        binary, _, test = self.check.removeprefix("unit ").partition(": ")
        return binary, test


STATEMENTS = "tests/behaviour/test_statements.py::"
RELAY = "tests/behaviour/test_relay_rules.py::"
WORKER = "tests/behaviour/test_worker_rules.py::"
REPLAY = "tests/behaviour/test_replay_rows.py::"
KAFKA_DOOR = "tests/behaviour/test_kafka_door.py::"
HOOKS = "tests/behaviour/test_webhooks_actions.py::"
CLAIMS = "unit test_model_claims: "
RELAYS = "unit test_model_relay: relays_publish_every_outcome_once"

MUTANTS = (
    # -- claims ------------------------------------------------------------------
    Mutant(
        "offset_before_claim",
        "an offset is committed once its record is claimed",
        (("worker/claim.c", """\
    struct pg_params params;
    pg_params_init(&params);
    put_columns(&params, claim);
""", """\
    struct pg_params params;
    for (size_t i = 0; i < claim->count; i++) {
        mark_durable(claim->batch[i]);
    }
    pg_params_init(&params);
    put_columns(&params, claim);
"""),),
        KAFKA_DOOR + "test_offsets_never_run_ahead_of_claims"),
    Mutant(
        "conflict_not_read",
        "what a claim did not insert is read in a new statement",
        (("worker/claim.c", """\
    take_claimed(claim, outcome->results[1]);
    read_conflicts(claim);
""", """\
    take_claimed(claim, outcome->results[1]);
    for (size_t i = 0; i < claim->count; i++) {
        if (claim->batch[i] != NULL) {
            drop(claim, claim->batch[i]);
            claim->batch[i] = NULL;
        }
    }
    end_batch(claim, 0);
"""),),
        KAFKA_DOOR
        + "test_other_content_is_a_conflict_under_an_id_of_its_own"),
    Mutant(
        "conflict_not_adopted",
        "a row of mine that I do not know is adopted",
        (("worker/protocol.c", "if (row->is_live_mine && !row->is_in_memory)",
          "if (row->is_live_mine && row->is_in_memory)"),),
        "unit test_protocol: claims_are_judged_by_what_is_there"),
    Mutant(
        "evidence_is_run",
        "a webhook whose signature was wrong becomes no action",
        (("worker/deliveries.c", "capture->verdict == WEBHOOK_REJECTED ||",
          "capture->verdict > WEBHOOK_REJECTED ||"),),
        HOOKS + "test_evidence_is_never_run"),
    Mutant(
        "repeat_by_request",
        "repeats of a webhook are told by its body, not by what it became",
        (("worker/deliveries.c",
          "    mapping_fingerprint(&delivery->capture,"
          " job->record.fingerprint);\n", ""),),
        HOOKS + "test_repeats_that_nobody_remembers_are_one_action"),
    Mutant(
        "id_of_the_key",
        "the action of a webhook has the delivery's id, also once it is taken"
        " over",
        (("worker/revive.c", "} else if (is_refused && job->record.key[0]",
          "} else if (job->record.key[0]"),),
        HOOKS + "test_action_of_a_dead_worker_is_taken_over"),
    Mutant(
        "no_reconcile",
        "rows of mine are compared with memory",
        (("worker/reconcile.c",
          "    loop_timer_start(reconcile->every, EVERY_MS, EVERY_MS);\n",
          ""),),
        WORKER + "test_row_of_mine_that_is_in_no_memory_is_found"),
    Mutant(
        "claim_without_window_lock",
        "a claim holds the window lock while it reads the newest window",
        (("schema/sql_worker.c",
          "select pg_advisory_xact_lock_shared(1095779393, 2)", "select 1"),),
        STATEMENTS
        + "test_older_windows_count_and_are_not_rotated_amid_a_claim"),
    Mutant(
        "rotation_without_window_lock",
        "a window is rotated while nobody claims",
        (("schema/sql/0002_add_windows_and_audit.sql",
          "    perform pg_advisory_xact_lock(1095779393, 2);\n", ""),),
        STATEMENTS
        + "test_older_windows_count_and_are_not_rotated_amid_a_claim"),
    Mutant(
        "unsorted_batch",
        "the ids of a batch are sorted",
        (("worker/job.c", "    if (count > 1) {\n        qsort(",
          "    if (count > 1000000) {\n        qsort("),),
        "unit test_job: batches_are_sorted_by_id_then_arrival"),
    # -- begin and the gate ----------------------------------------------------------
    Mutant(
        "gate_before_begun",
        "an unsafe call starts after its begun is committed",
        (("worker/admit.c", "    if (job->effect == EFFECT_UNSAFE) {",
          "    if (job->effect == EFFECT_UNSAFE && job->calls < 0) {"),),
        WORKER + "test_unsafe_call_runs_only_once_it_is_begun"),
    Mutant(
        "gate_without_presence",
        "no gate opens while presence is lost",
        (("worker/admit.c", """\
    if (!lease_is_safe(admit->worker->lease) ||
        !presence_is_held(admit->worker->presence) ||
""", """\
    if (!lease_is_safe(admit->worker->lease) ||
"""),),
        WORKER + "test_no_call_starts_while_presence_is_lost"),
    Mutant(
        "begun_set_back",
        "begun is never set back to ready",
        (("schema/sql_worker.c",
          "update live l set owner = null, attempt_no = l.attempt_no + 1,",
          "update live l set owner = null, state = 1,"
          " attempt_no = l.attempt_no + 1,"),
         ("schema/sql_worker.c", """\
l.owner = $3"
        " and l.state = 1",
""", """\
l.owner = $3",
""")),
        STATEMENTS + "test_begun_is_never_handed_back"),
    Mutant(
        "begun_said_again",
        "a begun that is mine opens the gate",
        (("worker/protocol.c", "        return BEGIN_GO;",
          "        return BEGIN_REPEAT;"),),
        CLAIMS + "unsafe, two delayed statements"),
    Mutant(
        "begun_dropped",
        "a begun that is mine is not forgotten",
        (("worker/protocol.c", "        return BEGIN_GO;",
          "        return BEGIN_DROP;"),),
        CLAIMS + "unsafe, nobody dies"),
    Mutant(
        "begun_by_the_dead",
        "a begun needs the worker's row alive and its lease",
        (("schema/sql_worker.c", """\
        " and exists (select from worker w where w.boot_id = $3"
        "  and w.state = 1 and w.lease_until > fleet_now())"
        " returning l.id",
""", """\
        " returning l.id",
"""),),
        STATEMENTS + "test_begun_needs_a_living_worker_and_its_lease"),
    # -- the end of a call -------------------------------------------------------------
    Mutant(
        "settle_without_fence",
        "a result names the owner and the fence",
        (("schema/sql_worker.c", "  and l.owner = $7\"",
          "  or l.id = i.id and $7::uuid is not null\""),),
        STATEMENTS
        + "test_result_is_written_by_the_owner_and_fence_alone[settle]"),
    Mutant(
        "postpone_without_fence",
        "a retry names the owner and the fence",
        (("schema/sql_worker.c", "  and l.owner = $11 and not l.is_cancelled",
          "  or l.id = i.id and $11::uuid is not null"),),
        STATEMENTS
        + "test_result_is_written_by_the_owner_and_fence_alone[postpone]"),
    Mutant(
        "cancelled_waits",
        "a cancelled action is not tried again",
        (("schema/sql_worker.c", "l.owner = $11 and not l.is_cancelled",
          "l.owner = $11"),),
        STATEMENTS + "test_cancelled_row_does_not_wait"),
    Mutant(
        "late_result_published",
        "a late result is a note, never an outcome",
        (("schema/sql_worker.c", """\
        LEDGER_INSERT
        " select g.id, g.tenant, " LEDGER_KEEP_DAYS
        ", g.attempt_no, 2, 'worker:' || $6::text, g.code,"
        " " LEDGER_TRACE_OF_ID ", g.detail"
""", """\
        "insert into outcome (id, tenant, attempt_no, window_no, status,"
        " calls, body) select g.id, g.tenant, g.attempt_no, 1, 2, 1, g.detail"
        " || $6::text::bytea"
"""),),
        STATEMENTS + "test_late_result_is_a_note_and_no_outcome"),
    Mutant(
        "late_said_again",
        "a result whose fence has moved is late",
        (("worker/protocol.c", "        live->attempt_no == facts->attempt_no) {",
          "        live->attempt_no >= facts->attempt_no) {"),),
        "unit test_protocol: a_moved_fence_makes_a_result_late"),
    Mutant(
        "unknown_is_failed",
        "a time-out may have had its effect",
        (("schema/state.c", "[CALL_TIMED_OUT] = VERDICT_MAYBE",
          "[CALL_TIMED_OUT] = VERDICT_PERMANENT"),),
        CLAIMS + "unsafe, two delayed statements"),
    Mutant(
        "unsafe_retried",
        "an unsafe call with an unknown end is not tried again",
        (("schema/state.c",
          "if (is_maybe && facts->effect == EFFECT_UNSAFE)",
          "if (is_maybe && facts->effect == EFFECT_UNSAFE &&"
          " facts->http_status < 0)"),),
        CLAIMS + "unsafe, two delayed statements"),
    # -- what is due -----------------------------------------------------------------
    Mutant(
        "retry_before_due",
        "nothing is tried again before it is due",
        (("schema/sql_scheduler.c",
          "where due <= least(fleet_now(), $2)\"",
          "where due <= fleet_now() + interval '1 min' and $2 is not null\""),),
        STATEMENTS + "test_due_rows_come_when_due_under_a_higher_fence"),
    Mutant(
        "clock_believed",
        "nothing is tried again by a time that the clock only jumped to",
        (("schema/sql_scheduler.c",
          "where due <= least(fleet_now(), $2)\"",
          "where due <= greatest(fleet_now(), $2 - interval '999 years')\""),),
        STATEMENTS
        + "test_nothing_is_taken_by_a_time_that_the_clock_only_jumped_to"),
    Mutant(
        "fire_without_cursor",
        "a tick fires for whoever moves the cursor of its schedule",
        (("schema/sql_scheduler.c",
          "between $1 and $1 and state = 1 and next_at = $2",
          "between $1 and $1 and state = 1 and $2 is not null"),),
        STATEMENTS + "test_cursor_lets_one_scheduler_fire_a_tick"),
    Mutant(
        "held_goes_on",
        "what is paused goes on only once its pause is gone",
        (("schema/sql_scheduler.c", "  where h.no is not null and (select",
          "  where h.no is not null or (select"),),
        STATEMENTS
        + "test_what_is_paused_goes_on_in_order_once_its_pause_is_gone"),
    Mutant(
        "due_keeps_fence",
        "an action comes back under a higher fence",
        (("schema/sql_scheduler.c",
          '" select id, window_no, tenant, attempt_no + 1, 1, effect, calls,"',
          '" select id, window_no, tenant, attempt_no, 1, effect, calls,"'),),
        STATEMENTS + "test_due_rows_come_when_due_under_a_higher_fence"),
    # -- the dead ---------------------------------------------------------------------
    Mutant(
        "rescue_by_age",
        "only rows of dead workers are taken over, however old",
        (("schema/sql_scheduler.c",
          "select distinct l.owner from live l where l.owner is not null",
          "select distinct l.owner from live l where l.owner is not null"
          " and l.since < fleet_now() - interval '1 min' or false"),),
        STATEMENTS + "test_orphans_are_rows_of_the_dead_alone"),
    Mutant(
        "dead_without_lock",
        "who marks a worker dead holds its presence lock",
        (("schema/sql_scheduler.c",
          "else pg_try_advisory_xact_lock(presence_key) end", "else true end"),),
        STATEMENTS
        + "test_worker_is_dead_only_by_a_free_lock_or_a_lapsed_lease"),
    Mutant(
        "mass_takeover",
        "most workers at once are not believed to be dead",
        (("scheduler/sweep_watch.c",
          "return vanished * 2 < all || (vanished == 1 && all <= 2);",
          "return vanished <= all;"),),
        "unit test_sweep_watch: half_of_the_workers_are_not_believed"),
    Mutant(
        "takeover_after_restart",
        "what was seen before a restart of Postgres counts for nothing",
        (("scheduler/sweep_watch.c", "    watch_fini(watch);\n    watch->quiet",
          "    watch->quiet"),),
        "unit test_sweep_watch: a_new_session_has_seen_nothing"),
    Mutant(
        "never_seen_held",
        "a lock that was never seen held proves nothing",
        (("scheduler/sweep_watch.c",
          "if (sight->is_held || !worker.was_held) {",
          "if (sight->is_held) {"),),
        "unit test_model_sweep: the_living_live_and_the_dead_are_found"),
    Mutant(
        "gone_at_first_sight",
        "a lock is free in looks half a second apart",
        (("scheduler/sweep_watch.c",
          "free_since_us, WATCH_GONE_US", "free_since_us, 0"),),
        "unit test_model_sweep: the_living_live_and_the_dead_are_found"),
    Mutant(
        "lapsed_at_first_sight",
        "a lease has run out in looks 3 s apart",
        (("scheduler/sweep_watch.c",
          "since_us, WATCH_LAPSED_US", "since_us, 0"),),
        "unit test_model_sweep: the_living_live_and_the_dead_are_found"),
    Mutant(
        "no_quiet",
        "no lease counts soon after a restart of Postgres",
        (("scheduler/sweep_watch.c",
          " &&\n            now_us >= watch->quiet_until_us", ""),),
        "unit test_model_sweep: the_living_live_and_the_dead_are_found"),
    Mutant(
        "sweep_without_fence",
        "the sweeper moves a row only as it was read",
        (("schema/sql_scheduler.c", "  and l.state = i.state and l.owner = $6",
          "  or l.id = i.id and l.owner = $6"),),
        STATEMENTS + "test_sweep_moves_only_what_is_as_it_was_read"),
    Mutant(
        "sweep_runs_begun_again",
        "a begun unsafe action of a dead worker is indeterminate",
        (("schema/state.c",
          "if (facts->state == LIVE_BEGUN && facts->effect == EFFECT_UNSAFE)",
          "if (facts->state == LIVE_BEGUN && facts->deaths < 0)"),),
        CLAIMS + "unsafe, two delayed statements"),
    Mutant(
        "ready_is_unstarted",
        "a dead worker's ready row may have had its effect unless unsafe",
        (("schema/state.c",
          "return was_unknown || facts->effect != EFFECT_UNSAFE ||",
          "return was_unknown ||"),),
        CLAIMS + "natural, cancelled"),
    # -- the relay's tail ---------------------------------------------------------------
    Mutant(
        "tail_by_last_seq",
        "numbers missing below the highest are remembered",
        (("scheduler/relay_core.c",
          "for (int64_t hole = core->high + 1; hole < seq; hole++)",
          "for (int64_t hole = core->high + 1; hole < 0; hole++)"),),
        "unit test_relay_core: every_small_history_is_published_once"),
    Mutant(
        "bound_is_xmax",
        "a gap's bound is an id drawn after the gap was seen",
        (("schema/sql_scheduler.c", "select pg_current_xact_id()::text::int8",
          "select pg_snapshot_xmax(pg_current_snapshot())::text::int8"),),
        STATEMENTS + "test_bound_lies_above_everybody_who_writes"),
    Mutant(
        "rows_before_xmin",
        "the oldest writer is read before the rows",
        (("scheduler/relay_tail.c", """\
    if (core->gap_count > 0) {
        /* Before the rows: each statement has a snapshot of its own. */
        pg_step(relay->pg, SQL_RELAY_XMIN, NULL);
    }
    pg_step(relay->pg, SQL_RELAY_ROWS, &relay->params);
""", """\
    pg_step(relay->pg, SQL_RELAY_ROWS, &relay->params);
    if (core->gap_count > 0) {
        pg_step(relay->pg, SQL_RELAY_XMIN, NULL);
    }
"""), ("scheduler/relay_tail.c",
       "outcome->results[outcome->result_count - 1];",
       "outcome->results[0];"),
         ("scheduler/relay_tail.c",
          "relay_core_xmin(&relay->core, pg_get_int(outcome->results[0], 0, 0))",
          "relay_core_xmin(&relay->core,"
          " pg_get_int(outcome->results[1], 0, 0))")),
        RELAY + "test_oldest_writer_is_read_before_the_rows"),
    Mutant(
        "gap_presumed_dead",
        "a gap is dead once its bound is passed",
        (("scheduler/relay_core.c",
          "gap->is_asked && gap->bound > 0 && gap->bound <= xmin;",
          "gap->is_asked && gap->bound > 0 && xmin > 0;"),),
        RELAYS),
    Mutant(
        "sequence_caches",
        "a sequence that caches is refused",
        (("scheduler/relay_check.c",
          "pg_get_int(facts, 0, RELAY_FACT_CACHE) != 1 ||\n        ", ""),),
        RELAY + "test_a_sequence_that_caches_is_refused"),
    # -- lanes and reading back -----------------------------------------------------------
    Mutant(
        "first_on_b",
        "the first transaction after a start is on lane A",
        (("scheduler/lanes.c", "    lanes->turn = 0;", "    lanes->turn = 1;"),),
        RELAY + "test_first_transaction_is_on_a_and_lanes_take_turns"),
    Mutant(
        "one_lane_fenced",
        "a start fences both lanes",
        (("scheduler/lanes.c", """\
    for (int i = 0; i < LANE_COUNT; i++) {
        char id
""".rstrip("\n"), """\
    for (int i = 0; i < 1; i++) {
        char id
""".rstrip("\n")), ("scheduler/lanes.c", """\
    struct lane *lane = lanes->lane[lanes->turn];
    if (lane == NULL) {
""", """\
    struct lane *lane = lanes->lane[lanes->turn];
    if (lane == NULL && lanes->turn == 1) {
        char id[NAME_SIZE + 4];
        (void)snprintf(id, sizeof(id), "%s.b", lanes->group);
        lane = lanes->lane[1] = lane_open(&lanes->target, id, err);
        if (lane == NULL) {
            return -1;
        }
    }
    if (lane == NULL) {
""")),
        RELAY + "test_start_fences_each_lane[b]"),
    Mutant(
        "no_read_back",
        "what is in the topic already is not published again",
        (("scheduler/relay_check.c",
          "relay_core_add_found(&relay->core, seqs, start->found_count);",
          "relay_core_add_found(&relay->core, seqs, 0);"),),
        RELAY + "test_what_is_in_the_topic_is_not_published_again"),
    Mutant(
        "read_back_without_waiting",
        "reading back waits until the stable end has reached the true end",
        (("scheduler/readback.c",
          "positions_advance(next, message->partition, message->offset);",
          "positions_advance(next, message->partition,\n"
          "            positions_get(ends, message->partition));"),),
        RELAY + "test_reading_back_waits_for_foreign_transactions"),
    Mutant(
        "watermark_outside",
        "the watermark is committed in the transaction of its records",
        (("scheduler/lane.c", """\
    if (is_watermark_due(lane) && send_watermark(lane, batch->low, err) != 0) {
        return -1;
    }
""", ""),),
        RELAY + "test_watermark_is_committed_with_the_records"),
    # -- checkpoints ------------------------------------------------------------------------
    Mutant(
        "checkpoint_of_low",
        "a checkpoint holds high and the gaps beside the positions",
        (("scheduler/checkpoint.c", "    pg_param_int8(params, core->high);",
          "    pg_param_int8(params, core->low);"),
         ("scheduler/checkpoint.c",
          "for (size_t i = 0; i < core->gap_count; i++) {\n        pg_array",
          "for (size_t i = 0; i < 0 * core->gap_count; i++) {\n"
          "        pg_array")),
        RELAY + "test_a_gap_outlives_the_relay"),
    Mutant(
        "positions_past_the_unmet",
        "positions stay until what lies behind them was met in the tail",
        (("scheduler/relay_core.c", "    return core->found_left == 0;",
          "    return core->found_left < SIZE_MAX;"),),
        RELAYS),
    Mutant(
        "checkpoint_goes_back",
        "a checkpoint never goes back",
        (("schema/sql_scheduler.c",
          "where c.low <= excluded.low and c.high <= excluded.high",
          "where true"),),
        STATEMENTS + "test_checkpoint_never_goes_back"),
    # -- replays -------------------------------------------------------------------
    Mutant(
        "replay_without_its_line",
        "a replay publishes only what it holds the line of",
        (("schema/sql_replay.c", "  where exists (select from replay_open p",
          "  where not exists (select from replay_open p"),),
        REPLAY + "test_of_a_line_one_action_is_under_way"),
    Mutant(
        "replay_of_what_succeeded",
        "what succeeded before the line was held does not run again",
        (("schema/sql_replay.c", "(s.status = 1 and not $2)",
          "(s.status = 0 and not $2)"),),
        REPLAY + "test_what_succeeded_meanwhile_does_not_run"),
    Mutant(
        "replay_step_twice",
        "a step goes on from the position that it was read at",
        (("schema/sql_replay.c",
          "select id from replay where id = $1 and position = $2",
          "select id from replay where id = $1 and $2::int8 is not null"),),
        REPLAY + "test_a_step_begins_where_it_was_read"),
    Mutant(
        "replay_tally_twice",
        "each end is counted once",
        (("schema/sql_replay.c", "   and tallied_seq = $2 for update),",
          "   and $2::int8 is not null for update),"),),
        REPLAY + "test_ends_are_counted_once_and_free_the_line"),
)
