/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/pauses.h"

#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "schema/sql_worker.h"
#include "worker/admit.h"
#include "worker/worker.h"

enum { EVERY_MS = 30000, RETRY_MS = 250 };

_Static_assert(
    sizeof(((struct pause *)0)->tenant) > RECORD_MAX_NAME, "a name has room");

struct pauses {
    struct worker *worker;
    struct loop_timer *every;
    struct loop_timer *again;
    struct pause *rows; /* owned */
    size_t count;
    bool is_read;    /* once */
    bool is_reading; /* a read is under way */
    bool is_wanted;  /* ... and something changed since */
};

int64_t pause_match(const struct pause *pauses, size_t count,
    const char *tenant, const char *connector, const char *action)
{
    for (size_t i = 0; i < count; i++) {
        const struct pause *one = &pauses[i];
        if ((one->tenant[0] == '\0' || strcmp(one->tenant, tenant) == 0) &&
            (one->connector[0] == '\0' ||
                strcmp(one->connector, connector) == 0) &&
            (one->action[0] == '\0' || strcmp(one->action, action) == 0)) {
            return one->number;
        }
    }
    return 0;
}

int64_t pauses_find(const struct pauses *pauses, const struct record *record)
{
    return pause_match(pauses->rows, pauses->count, record->tenant,
        record->connector, record->action);
}

bool pauses_are_read(const struct pauses *pauses)
{
    return pauses->is_read;
}

/* -- reading ---------------------------------------------------------------- */

static void copy_name(const PGresult *rows, int row, int column, char name[64])
{
    const struct span text = pg_get_bytes(rows, row, column);
    const size_t len = text.len < 64 ? text.len : 63;
    memcpy(name, text.ptr, len);
    name[len] = '\0';
}

static void keep_rows(struct pauses *pauses, const PGresult *rows)
{
    const size_t count = (size_t)pg_rows(rows);
    struct pause *made = mem_zalloc(count + 1, sizeof(*made));
    for (size_t i = 0; i < count; i++) {
        made[i].number = pg_get_int(rows, (int)i, 0);
        copy_name(rows, (int)i, 1, made[i].tenant);
        copy_name(rows, (int)i, 2, made[i].connector);
        copy_name(rows, (int)i, 3, made[i].action);
    }
    free(pauses->rows);
    pauses->rows = made;
    pauses->count = count;
}

static bool has_number(const struct pauses *pauses, int64_t number)
{
    for (size_t i = 0; i < pauses->count; i++) {
        if (pauses->rows[i].number == number) {
            return true;
        }
    }
    return false;
}

/* Rows come in order of their numbers, which only grow. */
static bool has_new(const struct pauses *pauses, const PGresult *rows)
{
    const int count = pg_rows(rows);
    return count > 0 && !has_number(pauses, pg_get_int(rows, count - 1, 0));
}

static void on_told(void *arg, const struct pg_outcome *outcome)
{
    const struct worker *worker = arg;
    if (outcome->end != PG_DONE && !worker->is_closing) {
        LOG(WARN, "pause_not_confirmed",
            (&(struct log_fields){.err = outcome->err}),
            "it is acted by all the same");
    }
}

/* From now on nothing starts that it holds. */
static void tell_seen(const struct pauses *pauses)
{
    struct worker *worker = pauses->worker;
    struct pg_params params;
    pg_params_init(&params);
    pg_param_uuid(&params, worker->boot_id);
    pg_param_int8(&params, pauses->rows[pauses->count - 1].number);
    pg_run(worker->claim_db, SQL_WORKER_PAUSE_SEEN, &params, on_told, worker);
    pg_params_fini(&params);
}

static void on_rows(void *arg, const struct pg_outcome *outcome)
{
    struct pauses *pauses = arg;
    if (pauses->worker->is_closing) {
        return;
    }
    pauses->is_reading = false;
    if (outcome->end != PG_DONE) {
        loop_timer_start(pauses->again, RETRY_MS, 0);
        return;
    }
    const bool is_news = has_new(pauses, outcome->results[0]);
    const bool was_read = pauses->is_read;
    keep_rows(pauses, outcome->results[0]);
    pauses->is_read = true;
    if (pauses->is_wanted) {
        pauses_refresh(pauses);
    }
    if (is_news) {
        LOG(INFO, "paused",
            (&(struct log_fields){
                .number_name = "pauses", .number = (long long)pauses->count}),
            "what they hold does not start");
        admit_review(pauses->worker->admit);
        tell_seen(pauses);
    } else if (!was_read) {
        admit_kick(pauses->worker->admit);
    }
}

void pauses_refresh(struct pauses *pauses)
{
    pauses->is_wanted = pauses->is_reading;
    if (!pauses->is_reading) {
        pauses->is_reading = true;
        pg_run(
            pauses->worker->claim_db, SQL_WORKER_PAUSES, NULL, on_rows, pauses);
    }
}

static void on_timer(void *owner)
{
    pauses_refresh(owner);
}

/* -- life ------------------------------------------------------------------- */

struct pauses *pauses_open(struct worker *worker)
{
    struct pauses *pauses = mem_zalloc(1, sizeof(*pauses));
    pauses->worker = worker;
    pauses->every = loop_timer_new(worker->loop, on_timer, pauses);
    pauses->again = loop_timer_new(worker->loop, on_timer, pauses);
    loop_timer_start(pauses->every, EVERY_MS, EVERY_MS);
    pauses_refresh(pauses);
    return pauses;
}

void pauses_close(struct pauses *pauses)
{
    if (pauses == NULL) {
        return;
    }
    loop_timer_free(pauses->every);
    loop_timer_free(pauses->again);
    free(pauses->rows);
    free(pauses);
}
