/* SPDX-License-Identifier: Apache-2.0 */
/* What a session is told before all else. Text alone, so that a test can read
 * it out of the library. */
#include "common/pg_private.h"

#define SETTINGS                                                               \
    "('search_path', 'actionist, pg_temp'), ('TimeZone', 'UTC'),"              \
    "('default_transaction_isolation', 'read committed'),"                     \
    "('synchronous_commit', 'on'), ('jit', 'off'),"                            \
    "('statement_timeout', '5s'), ('lock_timeout', '2s'),"                     \
    "('idle_in_transaction_session_timeout', '10s')"
/* Index lookups only. Without them the planner flips to hash joins, bitmaps
 * and sequential scans with the size that its statistics remember. */
#define PINNED_PLANS                                                           \
    ", ('plan_cache_mode', 'force_generic_plan'), ('enable_hashjoin', 'off')," \
    "('enable_mergejoin', 'off'), ('enable_seqscan', 'off'),"                  \
    "('enable_bitmapscan', 'off')"
#define SET_ALL(values)                                                        \
    "SELECT set_config(name, value, false)"                                    \
    " FROM (VALUES " values ") AS setting (name, value)"

const char PG_SETTINGS[] = SET_ALL(SETTINGS);
const char PG_SETTINGS_PINNED[] = SET_ALL(SETTINGS PINNED_PLANS);
