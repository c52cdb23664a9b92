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
    SQL_CTL_ACTION_GET,    /* columns: enum ctl_story_column */
    SQL_CTL_ACTION_LEDGER, /* columns: enum ctl_entry_column */
    SQL_CTL_NOW,
    SQL_CTL_DRAIN,
    SQL_CTL_DRAIN_LIFT,
    SQL_CTL_DRAIN_LEFT,
    SQL_CTL_WORKERS,     /* columns: enum ctl_worker_column */
    SQL_CTL_TOP_TOTALS,  /* columns: enum ctl_top_column */
    SQL_CTL_TOP_ENDED,   /* status, how many */
    SQL_CTL_TOP_TENANTS, /* columns: enum ctl_top_tenant_column */
    SQL_CTL_ENTRIES,     /* columns: enum ctl_entry_column */
    SQL_CTL_OUTCOMES,    /* the same */
    SQL_CTL_KEEP,
    SQL_CTL_KEEP_LIST,
    SQL_CTL_ACTION_LIST,
    SQL_CTL_LIVE_LIST,
    SQL_CTL_CANCEL, /* columns: enum cancel_column */
    SQL_CTL_UNFINISHED,
    SQL_CTL_RESOLVE_READ,
    SQL_CTL_RESOLVE,
    SQL_CTL_PAUSE_ADD,
    SQL_CTL_PAUSE_CONFIRMED,
    SQL_CTL_PAUSE_LIFT,
    SQL_CTL_PAUSE_LIST,
    SQL_CTL_PAUSE_COUNT,
    SQL_CTL_HOOK_ADD,
    SQL_CTL_HOOK_LIST, /* columns: enum ctl_hook_column */
    SQL_CTL_HOOK_ROTATE,
    SQL_CTL_HOOK_SWITCH,
    SQL_CTL_HOOK_MAP,
    SQL_CTL_HOOK_KEEP,
    SQL_CTL_HOOK_KEPT,
    SQL_CTL_DELIVERY_LIST, /* columns: enum ctl_delivery_column */
    SQL_CTL_DELIVERY_SHOW, /* columns: enum ctl_shown_column */
    SQL_CTL_DELIVERY_NOTE,
    SQL_CTL_BEGIN,
    SQL_CTL_COMMIT,
    SQL_CTL_TENANT_OF,
    SQL_CTL_REPLAY_LOCK,
    SQL_CTL_REPLAY_CLASH,
    SQL_CTL_REPLAY_CREATE,
    SQL_CTL_REPLAY_IDS,
    SQL_CTL_REPLAY_GET, /* columns: REPLAY_COLUMNS */
    SQL_CTL_REPLAY_LIST,
    SQL_CTL_REPLAY_ACT,
    SQL_CTL_SCHEDULE_PREPARE, /* columns: enum schedule_column, and the count */
    SQL_CTL_SCHEDULE_ADD,     /* columns here and below: the same */
    SQL_CTL_SCHEDULE_GET,
    SQL_CTL_SCHEDULE_LIST,
    SQL_CTL_SCHEDULE_SWITCH,
    SQL_CTL_SCHEDULE_REMOVE,
    SQL_CTL_COUNT
};

enum ctl_story_column {
    STORY_TENANT,
    STORY_CONNECTOR,
    STORY_ACTION,
    STORY_ACCEPTED_AT,
    STORY_SOURCE, /* null, and so are its neighbours: the window is gone */
    STORY_REQUEST,
    STORY_OUTCOME,
    STORY_LIVE_STATE,
    STORY_WAIT_REASON,
    STORY_WAIT_DUE,
    STORY_WAIT_ERROR,
    STORY_PAUSE_REASON,
    STORY_FINGERPRINT,
    STORY_MANIFEST, /* the text */
    STORY_EVENT,    /* null: nobody has resolved it */
    STORY_WORD,
    STORY_NOTE,
    STORY_ACTOR,
    STORY_RESOLVED_AT
};

enum ctl_entry_column {
    ENTRY_ENTRY,
    ENTRY_AT,
    ENTRY_TENANT,
    ENTRY_ID,
    ENTRY_ATTEMPT_NO,
    ENTRY_KIND,
    ENTRY_ACTOR,
    ENTRY_REASON,
    ENTRY_TRACE_ID,
    ENTRY_DETAIL,
    ENTRY_SEQ /* of outcomes alone */
};

enum ctl_hook_column {
    CTL_HOOK_TENANT,
    CTL_HOOK_SOURCE,
    CTL_HOOK_SCHEME,
    CTL_HOOK_PARAMETER,
    CTL_HOOK_IS_DISABLED,
    CTL_HOOK_SECRET_NO,
    CTL_HOOK_OLD_UNTIL, /* null: no older secret */
    CTL_HOOK_SEAL,      /* the head of the sealed secret */
    CTL_HOOK_HAS_TOKEN,
    CTL_HOOK_KEEPS_REJECTED,
    CTL_HOOK_MAX_BODY,
    CTL_HOOK_RATE,
    CTL_HOOK_ANSWER_MS,
    CTL_HOOK_CHANGED_AT,
    CTL_HOOK_MAPPING /* null: none */
};

enum ctl_delivery_column {
    CTL_DELIVERY_AT,
    CTL_DELIVERY_PARTITION,
    CTL_DELIVERY_OFFSET,
    CTL_DELIVERY_ID,
    CTL_DELIVERY_SOURCE,
    CTL_DELIVERY_SENDER_ID,
    CTL_DELIVERY_TYPE,
    CTL_DELIVERY_VERDICT,
    CTL_DELIVERY_REASON,
    CTL_DELIVERY_DECISION,
    CTL_DELIVERY_ERROR,
    CTL_DELIVERY_SIZE,
    CTL_DELIVERY_IS_REPLAY,
    CTL_DELIVERY_STATUS /* of its action; 0: under way; null: there is none */
};

enum ctl_shown_column {
    CTL_SHOWN_AT,
    CTL_SHOWN_PARTITION,
    CTL_SHOWN_OFFSET,
    CTL_SHOWN_ID,
    CTL_SHOWN_TENANT,
    CTL_SHOWN_SOURCE,
    CTL_SHOWN_SENDER_ID,
    CTL_SHOWN_TYPE,
    CTL_SHOWN_VERDICT,
    CTL_SHOWN_REASON,
    CTL_SHOWN_SCHEME,
    CTL_SHOWN_SECRET_NO,
    CTL_SHOWN_DECISION,
    CTL_SHOWN_ERROR,
    CTL_SHOWN_REPLAY_OF,
    CTL_SHOWN_METHOD,
    CTL_SHOWN_HEADERS,
    CTL_SHOWN_BODY,
    CTL_SHOWN_STATUS,
    CTL_SHOWN_IS_DISABLED /* its source */
};

extern const struct pg_statement SQL_CTL[SQL_CTL_COUNT];

enum ctl_worker_column {
    WORKER_NAME,
    WORKER_BOOT,
    WORKER_STARTED,
    WORKER_RUNNING,
    WORKER_DRAIN_REASON,
    WORKER_DRAIN_ACTOR
};

enum ctl_top_column {
    TOP_AT,
    TOP_SEQ, /* of the newest outcome */
    TOP_RUNNING,
    TOP_UNTAKEN, /* dispatched, no worker has it yet */
    TOP_WAITING,
    TOP_OVERDUE,
    TOP_OLDEST_US, /* that the oldest of the live is in this state */
    TOP_LATEST_US  /* that the longest overdue is */
};

enum ctl_top_tenant_column {
    TENANT_NAME,
    TENANT_RUNNING,
    TENANT_WAITING,
    TENANT_OVERDUE,
    TENANT_OLDEST_US
};

#endif
