/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger: what all statements that write entries of the ledger share. An entry
 * is written in the statement that does what it tells of, so one is never
 * there without the other; nothing that moves work reads it.
 */
#ifndef LEDGER_H
#define LEDGER_H

#include "schema/codes.h"

/* The columns that a statement gives; entry, at and key_id are defaults. */
#define LEDGER_INSERT                                                          \
    "insert into ledger (id, tenant, keep_days, attempt_no, kind, actor,"      \
    " reason, trace_id, detail)"

/* In what follows g is the row that an entry is made of. */

/* How long the entries of g.tenant are kept. */
#define LEDGER_KEEP_DAYS                                                       \
    "coalesce((select k.keep_days from ledger_keep k"                          \
    " where k.tenant = g.tenant), 90)"

/* The trace that g came with, by g.id and g.window_no. */
#define LEDGER_TRACE                                                           \
    "(select substr(a.traceparent, 4, 32) from action a"                       \
    " where a.id between g.id and g.id and a.window_no = g.window_no)"

/* The same by g.id alone: of the newest action that has it. */
#define LEDGER_TRACE_OF_ID                                                     \
    "(select substr(a.traceparent, 4, 32) from action a"                       \
    " where a.id between g.id and g.id order by a.window_no desc limit 1)"

/* The name of g.reason, a waiting reason. */
#define LEDGER_NAME_(symbol, number, name) "'" name "',"
#define LEDGER_REASON "(array[" WAIT_REASON_LIST(LEDGER_NAME_) "''])[g.reason]"

#endif
