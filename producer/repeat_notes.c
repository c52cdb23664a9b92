/* SPDX-License-Identifier: Apache-2.0 */
#include "producer/repeat_notes.h"

#include <stdlib.h>

#include "common/log.h"
#include "producer/producer.h"
#include "schema/sql_producer.h"

struct repeat_notes {
    struct producer *producer;
    struct loop_timer *timer;
    struct metric *left_out;
    struct repeats repeats;
};

static void on_noted(void *arg, const struct pg_outcome *outcome)
{
    const struct producer *producer = arg;
    if (outcome->end != PG_DONE && !producer->is_closing) {
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
    pg_param_text(&params, SPAN_LIT("producer"));
    pg_run(notes->producer->reserve_db, SQL_RESERVE_NOTE_REPEATS, &params,
        on_noted, notes->producer);
    pg_params_fini(&params);
    repeats_clear(&notes->repeats);
}

struct repeat_notes *producer_repeat_notes_open(struct producer *producer)
{
    struct repeat_notes *notes = mem_zalloc(1, sizeof(*notes));
    notes->producer = producer;
    notes->timer = loop_timer_new(producer->loop, flush, notes);
    notes->left_out =
        metric_counter("actionist_producer_repeats_left_out_total",
            "Repeated requests that the ledger does not tell of.", NULL);
    return notes;
}

void producer_repeat_notes_close(struct repeat_notes *notes)
{
    if (notes != NULL) {
        loop_timer_free(notes->timer);
        free(notes);
    }
}

void producer_repeat_notes_add(
    struct repeat_notes *notes, const struct repeat *repeat)
{
    if (!repeats_add(&notes->repeats, repeat)) {
        metric_add(notes->left_out, NULL, 1);
    }
    if (!loop_timer_is_active(notes->timer)) {
        loop_timer_start(notes->timer, REPEATS_EVERY_MS, 0);
    }
}
