-- Adds replays: what was asked for, how far it is, and whose repetition an
-- action is.
-- Lock cost: the new columns are null and change no row; the two indexes lock
-- outcome against writes while they read it, seconds for millions of rows.

-- -- whose repetition an action is ------------------------------------------------

-- replay_of: the action that is repeated. root_id: the first of that line.
-- effect_id: as whom the provider knows it; null: by its own id.
alter table action add column replay_id uuid, add column replay_of uuid,
    add column root_id uuid, add column effect_id uuid;
alter table live add column replay_id uuid, add column root_id uuid;
alter table waiting add column replay_id uuid, add column root_id uuid;
alter table outcome add column replay_id uuid, add column root_id uuid;
create index outcome_replay on outcome (replay_id, seq)
    where replay_id is not null;
create index outcome_root on outcome (root_id) where root_id is not null;

-- -- replays -----------------------------------------------------------------------

create table replay (
    id uuid primary key,
    tenant text not null,
    kind smallint not null check (kind in (1, 2)), -- actions, outcomes
    -- counting, running, ending, done, cancelled
    phase smallint not null default 1 check (phase between 1 and 5),
    is_paused boolean not null default false,
    is_settled boolean not null default false, -- nothing is left to be done
    -- what
    id_count int not null check (id_count between 0 and 1000000), -- 0: a filter
    connector text,
    action text,
    statuses int not null default 0, -- bit s for status s; 0: any
    error_code text,
    since timestamptz,
    until timestamptz,
    source text,
    from_seq bigint not null, -- outcomes after this
    to_seq bigint not null, -- up to this
    bound bigint, -- the transaction id after which to_seq was known
    -- how
    is_dry_run boolean not null,
    is_held boolean not null, -- pauses itself once it has counted
    has_new_key boolean not null,
    is_forced boolean not null, -- also what has succeeded
    rate int check (rate between 1 and 100000), -- a second
    max_rows bigint check (max_rows > 0),
    to_topic text check ((to_topic is not null) = (kind = 2)),
    actor text not null,
    reason text,
    created_at timestamptz not null default fleet_now(),
    ended_at timestamptz,
    -- how far
    position bigint not null, -- seq, or how many of the ids
    matched bigint not null default 0,
    planned bigint not null default 0, -- of these, by the count
    sample uuid[] not null default '{}', -- the first of these
    published bigint not null default 0,
    skips bigint[] not null default '{}', -- by reason
    ends bigint[] not null default '{}', -- by status, of what was published
    tallied_seq bigint not null, -- up to which outcome ends are counted
    trouble text -- why it stands still
);
create index replay_unsettled on replay (created_at) where not is_settled;
create index replay_tenant on replay (tenant, created_at, id);

-- The ids a replay was given, 1000 a row; gone once it is settled.
create table replay_ids (
    replay_id uuid not null,
    part int not null,
    ids uuid[] not null check (cardinality(ids) between 1 and 1000),
    primary key (replay_id, part)
);

-- Lines with a repetition under way: one at a time.
create table replay_open (
    root_id uuid primary key,
    action_id uuid not null,
    replay_id uuid not null
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_cost_limit = 2000);

-- -- rights of the runtime role ------------------------------------------------------

grant select, insert, update on replay to actionist_runtime;
grant select, insert, delete on replay_ids, replay_open to actionist_runtime;
