-- Adds pauses: what they hold waits, visibly and without an attempt, until they
-- are lifted.
-- Lock cost: waiting is locked while two indexes over none of its rows are
-- built and a check is made, a second a million rows.

create table pause (
    number bigint generated always as identity primary key,
    tenant text, -- null: any
    connector text,
    action text check (action is null or connector is not null),
    reason text not null,
    actor text not null,
    since timestamptz not null default fleet_now()
);
create unique index pause_scope on pause
    (coalesce(tenant, ''), coalesce(connector, ''), coalesce(action, ''));

-- Which pause holds a row. Once it is gone, the row is due in the order of due.
alter table waiting add column pause_no bigint,
    add check ((reason = 5) = (pause_no is not null));
create index waiting_paused on waiting (pause_no, due) where reason = 5;
-- What no clock brings back still ends at its deadline.
create index waiting_deadline on waiting (deadline)
    where reason in (4, 5) and deadline is not null;

-- The newest pause that a worker acts by.
alter table worker add column pause_seen bigint not null default 0;

grant select on pause to actionist_runtime;
