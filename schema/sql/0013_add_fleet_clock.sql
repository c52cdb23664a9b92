-- Notes how far waits were moved after steps of the database's clock, and from
-- which time of that clock each wait counts.
-- Lock cost: waiting is locked while a column is added; no row is rewritten.

create table fleet_clock (
    number smallint primary key default 1 check (number = 1), -- the only row
    moved_us bigint not null default 0, -- the sum of all moves
    moves int not null default 0,
    moved_at timestamptz
);
insert into fleet_clock default values;

alter table waiting add column since timestamptz not null default fleet_now();

grant select, update on fleet_clock to actionist_runtime;
