-- Creates every table of the first version.
-- Lock cost: none, everything is new.
-- Roles: the role that migrates owns all of it; actionist_runtime (made by
-- whoever runs the database) is what producer, worker and scheduler log in as.

create function fleet_now() returns timestamptz
    language sql stable parallel safe
    return statement_timestamp();

comment on function fleet_now() is
    'The only clock of every statement.';

-- -- idempotency store: windows that are dropped whole --------------------------

create table action_window (
    number int primary key check (number > 0),
    opened_at timestamptz not null default fleet_now(),
    closed_at timestamptz
);
insert into action_window (number) values (1);

create table action (
    id uuid not null,
    window_no int not null,
    tenant text not null,
    connector text not null,
    action text not null,
    fingerprint bytea not null check (octet_length(fingerprint) = 33),
    manifest bytea check (octet_length(manifest) = 32), -- null: rejected
    accepted_at timestamptz not null default fleet_now(),
    source text not null, -- topic:partition:offset
    traceparent text,
    -- Carried to live without a join: null effect means rejected.
    effect smallint check (effect in (1, 2, 3)),
    deadline timestamptz,
    key_id int not null default 0, -- 0: request is plain
    request bytea not null,
    primary key (id, window_no)
) partition by list (window_no);

create table action_w1 partition of action for values in (1);

-- -- in flight ------------------------------------------------------------------

create table live (
    id uuid primary key,
    window_no int not null,
    tenant text not null,
    attempt_no int not null check (attempt_no > 0), -- the fence
    state smallint not null check (state in (1, 2)), -- ready, begun
    owner uuid, -- boot id of a worker; null: dispatched, nobody's yet
    effect smallint not null check (effect in (1, 2, 3)),
    calls int not null default 0,
    deaths smallint not null default 0,
    is_effect_unknown boolean not null default false,
    is_cancelled boolean not null default false,
    deadline timestamptz,
    started_at timestamptz, -- of the first call
    since timestamptz not null default fleet_now()
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_cost_limit = 2000);

create table waiting (
    id uuid primary key,
    window_no int not null,
    tenant text not null,
    attempt_no int not null check (attempt_no > 0), -- of the last attempt
    reason smallint not null check (reason between 1 and 7),
    due timestamptz not null,
    effect smallint not null check (effect in (1, 2, 3)),
    calls int not null default 0,
    deaths smallint not null default 0,
    is_effect_unknown boolean not null default false,
    deadline timestamptz,
    started_at timestamptz,
    error bytea -- of the last attempt, JSON
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_cost_limit = 2000);
create index waiting_due on waiting (due);

-- -- outcome, outbox and last attempt in one ------------------------------------

-- One sequence a relay shard. The relay refuses to start if it caches.
create sequence outcome_seq as bigint cache 1 increment 1 no cycle;

create table outcome (
    seq bigint not null default nextval('outcome_seq'),
    id uuid not null,
    window_no int not null,
    tenant text not null,
    status smallint not null check (status between 1 and 8),
    attempt_no int not null,
    calls int not null,
    finished_at timestamptz not null default fleet_now(),
    error_code text,
    key_id int not null default 0, -- 0: body is plain
    body bytea not null,
    primary key (seq)
) partition by range (seq);
create index outcome_id on outcome (id);
create index outcome_tenant_seq on outcome (tenant, seq);

-- -- what is worth keeping beside outcomes --------------------------------------

create table ledger (
    at timestamptz not null default fleet_now(),
    id uuid not null,
    tenant text not null,
    attempt_no int not null,
    kind smallint not null check (kind between 1 and 5),
    key_id int not null default 0, -- 0: detail is plain
    detail bytea not null -- JSON
) partition by range (at);
create index ledger_id on ledger (id, at);

-- -- the fleet --------------------------------------------------------------------

create table worker (
    boot_id uuid primary key,
    name text not null,
    presence_key bigint not null unique, -- of the session advisory lock
    state smallint not null default 1 check (state in (1, 2, 3)),
    -- alive, stopped in order, dead
    started_at timestamptz not null default fleet_now(),
    lease_until timestamptz not null
);

create table relay_checkpoint (
    shard smallint primary key,
    low bigint not null,
    high bigint not null,
    gaps bigint[] not null,
    positions jsonb not null, -- {"<partition>": next offset}
    system_identifier bigint not null,
    timeline int not null,
    updated_at timestamptz not null default fleet_now(),
    check (low <= high)
);

-- The HTTP door reserves before it produces; not a claim.
create table reservation (
    id uuid primary key,
    tenant text not null,
    fingerprint bytea not null check (octet_length(fingerprint) = 33),
    reserved_at timestamptz not null default fleet_now()
);
create index reservation_at on reservation (reserved_at);

create table api_key (
    id text primary key,
    tenant text not null,
    hash bytea not null unique check (octet_length(hash) = 32),
    created_at timestamptz not null default fleet_now(),
    revoked_at timestamptz
);

create table connector (
    number bigint generated always as identity primary key,
    name text not null,
    version text not null,
    digest bytea not null unique check (octet_length(digest) = 32),
    manifest bytea not null,
    added_at timestamptz not null default fleet_now(),
    unique (name, version)
);

-- -- partitions, made ahead of need ------------------------------------------------

-- Owned by the migrating role, called by the scheduler, which may not run DDL.
create function ensure_partitions() returns int
    language plpgsql security definer
    set search_path = actionist, pg_temp
as $$
declare
    step constant bigint := 10000000;
    top bigint;
    first bigint;
    month date;
    made int := 0;
begin
    perform pg_advisory_xact_lock(1095779393, 5);
    select last_value into top from outcome_seq;
    for k in 0..2 loop
        first := (top / step + k) * step;
        if to_regclass(format('outcome_p%s', first / step)) is null then
            execute format('create table outcome_p%s partition of outcome'
                ' for values from (%s) to (%s)',
                first / step, first, first + step);
            made := made + 1;
        end if;
    end loop;
    for k in 0..2 loop
        month := date_trunc('month', fleet_now() at time zone 'UTC')
            + make_interval(months => k);
        if to_regclass('ledger_' || to_char(month, 'YYYYMM')) is null then
            execute format('create table ledger_%s partition of ledger'
                ' for values from (%L) to (%L)', to_char(month, 'YYYYMM'),
                month::timestamp at time zone 'UTC',
                (month + interval '1 month')::timestamp at time zone 'UTC');
            made := made + 1;
        end if;
    end loop;
    return made;
end
$$;
select ensure_partitions();

-- -- rights of the runtime role ----------------------------------------------------

grant usage on schema actionist to actionist_runtime;
grant select, insert on action, outcome, ledger to actionist_runtime;
grant select, insert, update, delete on live, waiting to actionist_runtime;
grant select, insert, delete on reservation to actionist_runtime;
grant select, insert, update on worker, relay_checkpoint to actionist_runtime;
grant select on action_window, api_key, connector to actionist_runtime;
grant select, usage on sequence outcome_seq to actionist_runtime;
revoke execute on function ensure_partitions() from public;
grant execute on function ensure_partitions() to actionist_runtime;
