/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the programs' statements: name, tab, types of the parameters, tab,
 * SQL. First the one that pins the plans of a session. For
 * lib/statements.py. */
#include <stdio.h>

#include "common/pg_private.h"
#include "schema/sql_producer.h"
#include "schema/sql_replay.h"
#include "schema/sql_scheduler.h"
#include "schema/sql_worker.h"

static void print(const struct pg_statement *statements, int count)
{
    for (int i = 0; i < count; i++) {
        (void)printf("%s\t", statements[i].name);
        for (int n = 0; n < statements[i].param_count; n++) {
            (void)printf(
                "%s%u", n == 0 ? "" : " ", (unsigned)statements[i].params[n]);
        }
        (void)printf("\t%s\n", statements[i].sql);
    }
}

int main(void)
{
    (void)printf("\t\t%s\n", PG_SETTINGS_PINNED);
    print(SQL_WORKER, SQL_WORKER_COUNT);
    print(SQL_PRESENCE, SQL_PRESENCE_COUNT);
    print(SQL_RELAY, SQL_RELAY_COUNT);
    print(SQL_WORK, SQL_WORK_COUNT);
    print(SQL_WINDOW, SQL_WINDOW_COUNT);
    print(SQL_REPLAY, SQL_REPLAY_COUNT);
    print(SQL_PULSE, SQL_PULSE_COUNT);
    print(SQL_CLOCK, SQL_CLOCK_COUNT);
    print(SQL_RESERVE, SQL_RESERVE_COUNT);
    print(SQL_LOOK, SQL_LOOK_COUNT);
    return 0;
}
