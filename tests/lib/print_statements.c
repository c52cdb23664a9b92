/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the programs' statements: name, tab, SQL. For lib/statements.py. */
#include <stdio.h>

#include "schema/sql_scheduler.h"
#include "schema/sql_worker.h"

static void print(const struct pg_statement *statements, int count)
{
    for (int i = 0; i < count; i++) {
        (void)printf("%s\t%s\n", statements[i].name, statements[i].sql);
    }
}

int main(void)
{
    print(SQL_WORKER, SQL_WORKER_COUNT);
    print(SQL_PRESENCE, SQL_PRESENCE_COUNT);
    print(SQL_RELAY, SQL_RELAY_COUNT);
    print(SQL_WORK, SQL_WORK_COUNT);
    print(SQL_WINDOW, SQL_WINDOW_COUNT);
    return 0;
}
