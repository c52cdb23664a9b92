/* SPDX-License-Identifier: Apache-2.0 */
#include "schema/sql_doctor.h"

/* A setting that is not as it should be. */
#define SETTING(check, name, wrong)                                            \
    {                                                                          \
        check,                                                                 \
            "select format('%s is %s', name, setting) from pg_settings"        \
            " where name = '" name "' and setting " wrong,                     \
            0,                                                                 \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }

const struct pg_statement SQL_DOCTOR[] = {
    SETTING("pg-durable", "fsync", "= 'off'"),
    SETTING("pg-durable", "full_page_writes", "= 'off'"),
    {"pg-commit",
        "select format('synchronous_commit is %s', reset_val) from pg_settings"
        " where name = 'synchronous_commit'"
        " and reset_val not in ('on', 'remote_apply')",
        0, {0}},
    {"pg-connections",
        "select format('%s of %s connections are left', m.most - u.used, "
        "m.most)"
        " from (select current_setting('max_connections')::int"
        "  - current_setting('superuser_reserved_connections')::int as most) m,"
        " (select count(*)::int as used from pg_stat_activity"
        "  where backend_type = 'client backend') u where m.most - u.used < 20"
        " union all select format('role %s may have %s connections', rolname,"
        "  rolconnlimit) from pg_roles where rolname = current_user"
        "  and rolconnlimit between 0 and 39"
        " union all select format('database %s may have %s connections',"
        "  datname, datconnlimit) from pg_database"
        "  where datname = current_database() and datconnlimit between 0 and "
        "39",
        0, {0}},
    SETTING("pg-autovacuum", "autovacuum", "= 'off'"),
    SETTING("pg-statistics", "track_counts", "= 'off'"),
    SETTING("pg-statistics", "track_activities", "= 'off'"),
    {"pg-slots",
        "select format('replication slot %s is not used and keeps %s of log',"
        "  slot_name, pg_size_pretty(pg_current_wal_lsn() - restart_lsn))"
        " from pg_replication_slots where not active"
        " and restart_lsn is not null and not pg_is_in_recovery()",
        0, {0}},
    {"pg-role",
        "select format('the programs log in as %s, a superuser', rolname)"
        " from pg_roles where rolname = current_user and rolsuper",
        0, {0}},
};
const size_t SQL_DOCTOR_COUNT = ARRAY_LEN(SQL_DOCTOR);

const struct pg_statement SQL_DOCTOR_SCHEMA[] = {
    {"pg-role",
        "select format('the programs log in as %s, which owns the tables',"
        "  tableowner) from pg_tables where schemaname = 'actionist'"
        " and tablename = 'live' and tableowner = current_user"
        " and not (select rolsuper from pg_roles where rolname = current_user)",
        0, {0}},
    {"pg-rights",
        "select format('%s may not %s %s', current_user, lower(p.name), t.name)"
        " from (values ('action', 'SI'), ('live', 'SIUD'),"
        "  ('waiting', 'SIUD'), ('outcome', 'SI'), ('ledger', 'SI'),"
        "  ('worker', 'SIU'), ('reservation', 'SID'), ('relay_checkpoint',"
        "  'SIU'), ('connector', 'S'), ('api_key', 'S'), ('webhook_source',"
        "  'S'), ('schedule', 'SIUD'), ('schedule_firing', 'SID'))"
        "  as t (name, letters),"
        " (values ('S', 'SELECT'), ('I', 'INSERT'), ('U', 'UPDATE'),"
        "  ('D', 'DELETE')) as p (letter, name)"
        " where position(p.letter in t.letters) > 0 and not"
        "  has_table_privilege(format('actionist.%I', t.name), p.name)",
        0, {0}},
    {"pg-partitions",
        "select format('there is no table outcome_p%s', n)"
        " from (select coalesce(last_value, 0) / 10000000 as now"
        "  from pg_sequences where schemaname = 'actionist'"
        "  and sequencename = 'outcome_seq') s,"
        " generate_series(s.now, s.now + 1) n"
        " where to_regclass(format('actionist.outcome_p%s', n)) is null",
        0, {0}},
    {"pg-sequence",
        "select format('outcome_seq caches %s, steps by %s', cache_size,"
        "  increment_by) from pg_sequences where schemaname = 'actionist'"
        " and sequencename = 'outcome_seq'"
        " and (cache_size <> 1 or increment_by <> 1 or cycle)",
        0, {0}},
    {"pg-autovacuum",
        "select format('table %s has it switched off', relname) from pg_class"
        " where relnamespace = 'actionist'::regnamespace"
        " and 'autovacuum_enabled=false' = any (reloptions)",
        0, {0}},
    {"pg-clock",
        "select format('fleet_now() is %s from the server''s clock',"
        "  fleet_now() - statement_timestamp())"
        " where abs(extract(epoch from fleet_now() - statement_timestamp()))"
        " > 1",
        0, {0}},
    {"fleet-scheduler",
        "select 'no scheduler leads the relay' where not exists (select"
        "  from pg_locks where locktype = 'advisory' and classid = 1095779393"
        "  and objid = 100 and objsubid = 2 and granted and database ="
        "  (select oid from pg_database where datname = current_database()))",
        0, {0}},
    {"fleet-worker",
        "select 'no worker lives' where not exists (select from worker"
        "  where state = 1 and lease_until > fleet_now())",
        0, {0}},
};
const size_t SQL_DOCTOR_SCHEMA_COUNT = ARRAY_LEN(SQL_DOCTOR_SCHEMA);

const struct pg_statement SQL_DOCTOR_IDLE = {"pg-idle",
    "select format('session %s of %s has been idle in its transaction for %s',"
    "  pid, usename, date_trunc('second', statement_timestamp() - xact_start))"
    " from pg_stat_activity where state like 'idle in transaction%'"
    " and xact_start < statement_timestamp() - make_interval(secs => $1)"
    " and datname = current_database() order by xact_start limit 10",
    1, {PG_INT4}};
const struct pg_statement SQL_DOCTOR_VERSION = {"pg-schema",
    "select coalesce(max(number), 0)::int8 from actionist.migration", 0, {0}};
const struct pg_statement SQL_DOCTOR_CLOCK = {
    "pg-clock", "select clock_timestamp(), pg_backend_pid()", 0, {0}};
const struct pg_statement SQL_DOCTOR_SOURCES = {"settings-master-key",
    "select count(*) from actionist.webhook_source where not is_disabled", 0,
    {0}};
