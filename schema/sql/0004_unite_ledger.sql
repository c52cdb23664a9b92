-- Makes the ledger the one record of what was done to an action beside its
-- outcome: who, why, in which trace, kept as long as its tenant wants.
-- Lock cost: the ledger is copied, seconds a million rows; nothing else waits.

-- RFC 9562: 48 bits of the fleet's clock, the rest random.
create function uuid_v7() returns uuid
    language sql volatile parallel safe
    return encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        placing substring(int8send(floor(extract(epoch from fleet_now())
            * 1000)::int8) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid;

-- The same of a time and a number, for the entry that an outcome is.
create function uuid_v7_of(at timestamptz, seq bigint) returns uuid
    language sql immutable parallel safe
    return encode(substring(int8send(floor(extract(epoch from at)
        * 1000)::int8) from 3) || '\x7000'::bytea
        || set_bit(int8send(seq), 7, 1), 'hex')::uuid;

-- For how many days the entries of a tenant are kept; others: 90.
create table ledger_keep (
    tenant text primary key,
    keep_days int not null check (keep_days between 1 and 3650),
    changed_at timestamptz not null default fleet_now()
);

-- -- the table, by how long it is kept, then by month -------------------------------

alter table ledger rename to ledger_before;
alter index ledger_id rename to ledger_before_id;

create table ledger (
    entry uuid not null default uuid_v7(),
    at timestamptz not null default fleet_now(),
    keep_days int not null default 90,
    tenant text, -- null: an act upon the fleet
    id uuid, -- null: an act upon more than one action
    attempt_no int not null default 0,
    kind smallint not null check (kind between 1 and 10),
    actor text not null default 'fleet',
    reason text,
    trace_id text check (length(trace_id) = 32),
    key_id int not null default 0, -- 0: detail is plain
    detail bytea not null -- JSON
) partition by list (keep_days);
create index ledger_id on ledger (id, at);
create index ledger_tenant on ledger (tenant, at);
create index ledger_at on ledger (at, entry);

-- Partitions are made apart and then attached: that waits for no reader and
-- for no writer, while `create table ... partition of` waits for the longest
-- report, and everybody waits for it.
create function attach_partition(
    parent regclass, name text, bounds text, split text) returns boolean
    language plpgsql
    set search_path = actionist, pg_temp
as $$
begin
    if to_regclass(name) is not null then
        return false;
    end if;
    execute format('create table %I (like %s including defaults'
        ' including constraints including indexes) %s', name, parent, split);
    execute format('alter table %s attach partition %I for values %s',
        parent, name, bounds);
    return true;
end
$$;

create or replace function ensure_partitions() returns int
    language plpgsql security definer
    set search_path = actionist, pg_temp
as $$
declare
    step constant bigint := 10000000;
    top bigint;
    first bigint;
    month date;
    days int;
    class text;
    made int := 0;
begin
    perform pg_advisory_xact_lock(1095779393, 5);
    select last_value into top from outcome_seq;
    for k in 0..2 loop
        first := (top / step + k) * step;
        made := made + attach_partition('outcome',
            format('outcome_p%s', first / step),
            format('from (%s) to (%s)', first, first + step), '')::int;
    end loop;
    -- A class stays once it was made: who read the old wish of a tenant a
    -- moment ago still writes there.
    for days in select 90 union select keep_days from ledger_keep
        union select substring(relname from 9)::int from pg_class
            where relnamespace = 'actionist'::regnamespace
            and relkind = 'p' and relname ~ '^ledger_k[0-9]+$' loop
        class := format('ledger_k%s', days);
        made := made + attach_partition('ledger', class,
            format('in (%s)', days), 'partition by range (at)')::int;
        for k in 0..2 loop
            month := date_trunc('month', fleet_now() at time zone 'UTC')
                + make_interval(months => k);
            made := made + attach_partition(class::regclass,
                class || to_char(month, '"_"YYYYMM'),
                format('from (%L) to (%L)',
                    month::timestamp at time zone 'UTC',
                    (month + interval '1 month')::timestamp
                        at time zone 'UTC'), '')::int;
        end loop;
    end loop;
    return made;
end
$$;
select ensure_partitions();

-- What is older than this month gets partitions of its own.
do $$
declare
    month date;
begin
    for month in select distinct date_trunc('month', at at time zone 'UTC')
        from ledger_before loop
        perform attach_partition('ledger_k90',
            to_char(month, '"ledger_k90_"YYYYMM'),
            format('from (%L) to (%L)', month::timestamp at time zone 'UTC',
                (month + interval '1 month')::timestamp at time zone 'UTC'),
            '');
    end loop;
end
$$;
insert into ledger (at, tenant, id, attempt_no, kind, key_id, detail)
    select at, tenant, id, attempt_no, kind, key_id, detail
    from ledger_before;
drop table ledger_before;

-- Drops one month whose newest entry is older than its days; null: there is
-- none. It waits for readers only briefly, since all writers wait with it.
create function drop_ledger_month() returns text
    language plpgsql security definer
    set search_path = actionist, pg_temp
    set lock_timeout = '100ms'
as $$
declare
    old text;
begin
    select p.relname into old from pg_class p
        where p.relnamespace = 'actionist'::regnamespace and p.relkind = 'r'
        and p.relname ~ '^ledger_k[0-9]+_[0-9]{6}$'
        and (to_date(right(p.relname, 6), 'YYYYMM')
                + interval '1 month')::timestamp at time zone 'UTC'
            + make_interval(days =>
                substring(p.relname from 9 for length(p.relname) - 15)::int)
            < fleet_now()
        order by right(p.relname, 6) limit 1;
    if found then
        execute format('drop table %I', old);
    end if;
    return old;
end
$$;

-- -- one view over entries and outcomes ------------------------------------------------

-- The outcome of an action is the entry of its last attempt: kind 0.
create view ledger_all as
    select entry, at, tenant, id, attempt_no, kind, actor, reason, trace_id,
        key_id, detail
    from ledger
    union all
    select uuid_v7_of(o.finished_at, o.seq), o.finished_at, o.tenant, o.id,
        o.attempt_no, 0::smallint, 'fleet', o.error_code,
        (select substr(a.traceparent, 4, 32) from action a
            where a.id = o.id and a.window_no = o.window_no),
        o.key_id, o.body
    from outcome o;

-- The number from which on outcomes ended at or after a time. Numbers are drawn
-- in order of time but for transactions under way together, hence a minute.
create function outcome_seq_at(t timestamptz) returns bigint
    language plpgsql stable
    set search_path = actionist, pg_temp
as $$
declare
    low bigint := 0;
    high bigint;
    middle bigint;
    found_at timestamptz;
begin
    select coalesce(max(seq), 0) + 1 into high from outcome;
    while low < high loop
        middle := (low + high) / 2;
        select finished_at into found_at from outcome where seq >= middle
            order by seq limit 1;
        if found_at is null or found_at >= t - interval '1 min' then
            high := middle;
        else
            low := middle + 1;
        end if;
    end loop;
    return low;
end
$$;

-- -- rights of the runtime role ----------------------------------------------------

grant select, insert on ledger to actionist_runtime;
grant select on ledger_all, ledger_keep to actionist_runtime;
revoke execute on function attach_partition(regclass, text, text, text)
    from public;
revoke execute on function drop_ledger_month() from public;
grant execute on function drop_ledger_month() to actionist_runtime;
