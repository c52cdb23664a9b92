/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be true before a relay publishes. A database that was restored
 * from before, a topic that was made anew, a sequence that caches: each would
 * lose or double outcomes silently, so each is refused aloud.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "scheduler/relay_private.h"

enum { COMPARE_ROWS = 5000 };

/* -- facts and checkpoint -------------------------------------------------------------- */

static int check_facts(const PGresult *facts, struct err *err)
{
    if (pg_rows(facts) != 1) {
        return err_set(err, ERR_FATAL, "NO_SEQUENCE",
            "the sequence outcome_seq is missing; run actionist migrate");
    }
    if (pg_get_int(facts, 0, RELAY_FACT_CACHE) != 1 ||
        pg_get_int(facts, 0, RELAY_FACT_INCREMENT) != 1 ||
        pg_get_bool(facts, 0, RELAY_FACT_IS_CYCLIC)) {
        return err_set(err, ERR_FATAL, "SEQUENCE_CACHES",
            "the sequence outcome_seq must have CACHE 1, INCREMENT 1 and NO "
            "CYCLE");
    }
    if (span_is(pg_get_bytes(facts, 0, RELAY_FACT_SYNCHRONOUS_COMMIT), "off")) {
        return err_set(
            err, ERR_FATAL, "COMMITS_ARE_LAZY", "synchronous_commit is off");
    }
    return 0;
}

static int check_checkpoint(
    struct relay *relay, const PGresult *facts, struct err *err)
{
    struct checkpoint *checkpoint = &relay->checkpoint;
    const int64_t last_value = pg_get_int(facts, 0, RELAY_FACT_LAST_VALUE);
    if (!relay_core_load(&relay->core, checkpoint->low, checkpoint->high,
            checkpoint->gaps, checkpoint->gap_count)) {
        return err_set(err, ERR_FATAL, "BAD_CHECKPOINT",
            "the relay's checkpoint contradicts itself");
    }
    if (last_value < checkpoint->high) {
        return err_set(err, ERR_FATAL, "DATABASE_LOST_COMMITS",
            "outcome_seq stands at %lld, but %lld was published: the database "
            "was restored from before",
            (long long)last_value, (long long)checkpoint->high);
    }
    if (checkpoint->exists && (checkpoint->system != relay->system ||
                                  checkpoint->timeline != relay->timeline)) {
        LOG(WARN, "relay_database_changed", NULL,
            "the database failed over or was restored; what was published "
            "will be compared with it");
    }
    return 0;
}

static void on_checked(void *arg, const struct pg_outcome *outcome)
{
    struct relay *relay = arg;
    if (!relay_takes(relay, RELAY_CHECKING, outcome, "the checkpoint")) {
        return;
    }
    const PGresult *facts = outcome->results[1];
    struct err err = ERR_INIT;
    if (check_facts(facts, &err) != 0) {
        relay_restart(relay, &err);
        return;
    }
    relay->system = pg_get_int(facts, 0, RELAY_FACT_SYSTEM);
    relay->timeline = (int32_t)pg_get_int(facts, 0, RELAY_FACT_TIMELINE);
    relay->has_standby = pg_get_bool(facts, 0, RELAY_FACT_HAS_STANDBY);
    if (checkpoint_parse(&relay->checkpoint, outcome->results[0], &err) != 0 ||
        check_checkpoint(relay, facts, &err) != 0) {
        relay_restart(relay, &err);
        return;
    }
    relay_begin_lanes(relay);
}

void relay_check(struct relay *relay)
{
    relay_set_phase(relay, RELAY_CHECKING);
    /* The checkpoint first: the sequence may only be ahead of it. */
    pg_begin(relay->pg);
    pg_params_clear(&relay->params);
    pg_param_int2(&relay->params, (int16_t)relay->shard);
    pg_step(relay->pg, SQL_RELAY_CHECKPOINT_READ, &relay->params);
    pg_step(relay->pg, SQL_RELAY_FACTS, NULL);
    pg_commit(relay->pg, on_checked, relay);
}

/* -- what was read back, and the rows ---------------------------------------------------- */

static int compare_found(const void *a, const void *b)
{
    const struct lane_found *left = a;
    const struct lane_found *right = b;
    if (left->seq != right->seq) {
        return left->seq < right->seq ? -1 : 1;
    }
    return memcmp(left->id, right->id, UUID_SIZE);
}

/* Index behind the part under comparison; never splits equal numbers. */
static size_t part_end(const struct relay *relay)
{
    const struct lane_start *start = &relay->start;
    size_t end = relay->compared + COMPARE_ROWS;
    if (end >= start->found_count) {
        return start->found_count;
    }
    while (end < start->found_count &&
           start->found[end].seq == start->found[end - 1].seq) {
        end++;
    }
    return end;
}

static int compare_one(const struct relay *relay,
    const struct lane_found *found, const PGresult *rows, int row,
    struct err *err)
{
    const bool exists =
        row < pg_rows(rows) && pg_get_int(rows, row, 0) == found->seq;
    if (exists &&
        memcmp(pg_get_uuid(rows, row, 1), found->id, UUID_SIZE) == 0) {
        return 0;
    }
    if (!exists && found->seq <= relay->checkpoint.low) {
        return 0; /* its partition was dropped long after it was published */
    }
    return err_set(err, ERR_FATAL, "DATABASE_LOST_COMMITS",
        "outcome %lld is published, but the database %s: it was restored from "
        "before, or is another one",
        (long long)found->seq,
        exists ? "holds another action there" : "does not hold it");
}

static int compare_part(
    struct relay *relay, const PGresult *rows, size_t end, struct err *err)
{
    int row = 0;
    for (size_t i = relay->compared; i < end; i++) {
        const struct lane_found *found = &relay->start.found[i];
        while (row < pg_rows(rows) && pg_get_int(rows, row, 0) < found->seq) {
            row++;
        }
        if (compare_one(relay, found, rows, row, err) != 0) {
            return -1;
        }
    }
    return 0;
}

static void take_found(struct relay *relay)
{
    const struct lane_start *start = &relay->start;
    int64_t *seqs = mem_zalloc(start->found_count + 1, sizeof(*seqs));
    for (size_t i = 0; i < start->found_count; i++) {
        seqs[i] = start->found[i].seq;
    }
    const size_t repeated =
        relay_core_add_found(&relay->core, seqs, start->found_count);
    free(seqs);
    if (repeated > 0 || start->foreign > 0) {
        metric_add(relay->stats.duplicates, NULL, (double)repeated);
        LOG(ERROR, "outcomes_foreign",
            (&(struct log_fields){
                .number_name = "duplicates", .number = (long long)repeated}),
            "somebody else writes to the outcomes topic: %zu outcomes are "
            "there more than once, %zu records are not ours",
            repeated, start->foreign);
    }
}

static void send_part(struct relay *relay);

static void on_compared(void *arg, const struct pg_outcome *outcome)
{
    struct relay *relay = arg;
    if (!relay_takes(relay, RELAY_COMPARING, outcome, "the read-back")) {
        return;
    }
    const size_t end = part_end(relay);
    struct err err = ERR_INIT;
    if (compare_part(relay, outcome->results[0], end, &err) != 0) {
        relay_restart(relay, &err);
        return;
    }
    relay->compared = end;
    send_part(relay);
}

static void send_part(struct relay *relay)
{
    if (relay->compared == relay->start.found_count) {
        take_found(relay);
        relay_tail(relay);
        return;
    }
    const size_t end = part_end(relay);
    pg_params_clear(&relay->params);
    pg_array_begin(&relay->params, PG_INT8);
    for (size_t i = relay->compared; i < end; i++) {
        pg_array_int8(&relay->params, relay->start.found[i].seq);
    }
    pg_array_end(&relay->params);
    pg_run(relay->pg, SQL_RELAY_IDS, &relay->params, on_compared, relay);
}

void relay_compare(struct relay *relay)
{
    relay_set_phase(relay, RELAY_COMPARING);
    relay->compared = 0;
    if (relay->start.found_count > 0) {
        qsort(relay->start.found, relay->start.found_count,
            sizeof(*relay->start.found), compare_found);
    }
    send_part(relay);
}
