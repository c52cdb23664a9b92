-- Adds what a person found out later about an indeterminate action: an event
-- of its own on the outcomes topic, never a change of the outcome.
-- Lock cost: none; outcome gets a column without a value.

create table resolution (
    outcome_seq bigint primary key, -- of the outcome it speaks of
    id uuid not null, -- of the action
    event uuid not null, -- of itself; the id of its row in outcome
    tenant text not null,
    status smallint not null check (status in (1, 2)),
    note text not null,
    actor text not null,
    at timestamptz not null default fleet_now()
);
create index resolution_id on resolution (id);

-- Of an event that is no outcome: the seq of the outcome it speaks of.
alter table outcome add column resolves bigint;

create or replace view ledger_all as
    select entry, at, tenant, id, attempt_no, kind, actor, reason, trace_id,
        key_id, detail
    from ledger
    union all
    select uuid_v7_of(o.finished_at, o.seq), o.finished_at, o.tenant, o.id,
        o.attempt_no, 0::smallint, 'fleet', o.error_code,
        (select substr(a.traceparent, 4, 32) from action a
            where a.id = o.id and a.window_no = o.window_no),
        o.key_id, o.body
    from outcome o where o.resolves is null;

grant select, insert on resolution to actionist_runtime;
