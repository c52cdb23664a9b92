-- Adds schedules: what fires when, and the firings on their way to Kafka.
-- Lock cost: none, everything is new.

create table schedule (
    id uuid primary key,
    tenant text not null,
    name text not null,
    document bytea not null check (octet_length(document) <= 65536), -- JSON
    state smallint not null default 1 check (state in (1, 2, 3)),
    -- active, paused, done
    next_at timestamptz, -- the cursor: the first tick that has not fired
    last_at timestamptz, -- the last tick that fired, and what became of it
    last_action uuid,
    fired_count bigint not null default 0,
    missed_count bigint not null default 0,
    created_at timestamptz not null,
    changed_at timestamptz not null default fleet_now(),
    unique (tenant, name),
    check ((next_at is null) = (state = 3))
) with (fillfactor = 80);
create index schedule_next on schedule (next_at, id) where state = 1;

-- Written with the cursor in one statement, deleted once Kafka has it.
create table schedule_firing (
    schedule_id uuid not null,
    tick timestamptz not null,
    action_id uuid not null,
    tenant text not null,
    request bytea not null,
    since timestamptz not null default fleet_now(),
    primary key (schedule_id, tick)
) with (autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_cost_limit = 2000);
create index schedule_firing_since on schedule_firing (since);

grant select, insert, update, delete on schedule to actionist_runtime;
grant select, insert, delete on schedule_firing to actionist_runtime;
