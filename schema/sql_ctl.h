/* SPDX-License-Identifier: Apache-2.0 */
/* sql_ctl: the statements of the operator's command. */
#ifndef SQL_CTL_H
#define SQL_CTL_H

#include "common/pg.h"

enum sql_ctl {
    SQL_CTL_KEY_ADD,
    SQL_CTL_KEY_LIST,
    SQL_CTL_KEY_REVOKE,
    SQL_CTL_CONNECTOR_ADD,
    SQL_CTL_CONNECTOR_LIST,
    SQL_CTL_CONNECTOR_SHOW,
    SQL_CTL_ACTION_GET,
    SQL_CTL_ACTION_LEDGER,
    SQL_CTL_ACTION_LIST,
    SQL_CTL_CANCEL, /* columns: enum cancel_column */
    SQL_CTL_UNFINISHED,
    SQL_CTL_COUNT
};

extern const struct pg_statement SQL_CTL[SQL_CTL_COUNT];

#endif
