-- Adds drains: workers that finish what they run, give back the rest and stand
-- by until the wish is gone.
-- Lock cost: none.

create table drain (
    worker text primary key, -- the name of workers; '': all
    reason text not null,
    actor text not null,
    since timestamptz not null default fleet_now()
);

grant select on drain to actionist_runtime;
