/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/repeat_notes.h"

#include <stdlib.h>

#include "common/log.h"
#include "schema/sql_worker.h"
#include "worker/worker.h"

struct repeat_notes {
    struct worker *worker;
    struct loop_timer *timer;
    struct metric *left_out;
    struct repeats repeats;
};

static void on_noted(void *arg, const struct pg_outcome *outcome)
{
    const struct worker *worker = arg;
    if (outcome->end != PG_DONE && !worker->is_closing) {
        LOG(WARN, "repeats_not_noted",
            (&(struct log_fields){.err = outcome->err}),
            "the ledger does not tell of some repeated requests");
    }
}

static void flush(void *owner)
{
    struct repeat_notes *notes = owner;
    struct pg_params params;
    pg_params_init(&params);
    repeats_put(&notes->repeats, &params);
    struct buf actor;
    buf_init(&actor, 64);
    buf_printf(&actor, "worker:%s", notes->worker->boot_text);
    pg_param_text(&params, buf_span(&actor));
    buf_fini(&actor);
    pg_run(notes->worker->settle_db, SQL_WORKER_NOTE_REPEATS, &params, on_noted,
        notes->worker);
    pg_params_fini(&params);
    repeats_clear(&notes->repeats);
}

struct repeat_notes *worker_repeat_notes_open(struct worker *worker)
{
    struct repeat_notes *notes = mem_zalloc(1, sizeof(*notes));
    notes->worker = worker;
    notes->timer = loop_timer_new(worker->loop, flush, notes);
    notes->left_out = metric_counter("actionist_worker_repeats_left_out_total",
        "Repeated requests that the ledger does not tell of.", NULL);
    return notes;
}

void worker_repeat_notes_close(struct repeat_notes *notes)
{
    if (notes != NULL) {
        loop_timer_free(notes->timer);
        free(notes);
    }
}

void worker_repeat_notes_add(
    struct repeat_notes *notes, const struct repeat *repeat)
{
    if (!repeats_add(&notes->repeats, repeat)) {
        metric_add(notes->left_out, NULL, 1);
    }
    if (!loop_timer_is_active(notes->timer)) {
        loop_timer_start(notes->timer, REPEATS_EVERY_MS, 0);
    }
}
