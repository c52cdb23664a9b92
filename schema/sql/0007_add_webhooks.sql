-- Adds the deliveries of webhooks for look-up, kept for a retention by tenant,
-- and the mapping that makes actions of a source's deliveries.
-- Lock cost: one moment on webhook_source; everything else is new.

-- JSON of json/mapping.schema.json; null: consumers read the topic.
alter table webhook_source add mapping bytea
    check (octet_length(mapping) <= 65536);

-- Each number of days that some tenant's deliveries are kept for, and the span
-- of time its partitions cover. A delivery from outside of it goes to the edge:
-- nothing a sender or a clock says can stop a worker.
create table webhook_keep (
    keep_days int primary key check (keep_days between 1 and 3650),
    from_at timestamptz not null,
    to_at timestamptz not null,
    check (from_at < to_at)
);

-- Tenants that do not keep theirs for 30 days.
create table webhook_retention (
    tenant text primary key,
    keep_days int not null -- of webhook_keep
);

-- One row a record of the topic, written by the worker that read it; a record
-- read again meets its own row. Append-only.
create table webhook (
    keep_days int not null,
    at timestamptz not null, -- received
    kafka_partition int not null,
    kafka_offset bigint not null,
    id uuid not null, -- also of the action, if it is mapped
    tenant text not null,
    source text not null,
    sender_id text,
    type text,
    verdict smallint not null check (verdict between 0 and 2),
    reason text,
    scheme text not null,
    secret_no int,
    decision smallint not null check (decision between 1 and 5),
    error bytea, -- JSON: why there is no action
    replay_of uuid,
    method text not null,
    headers bytea not null, -- JSON, as it stands on the topic
    body bytea not null, -- the exact bytes
    primary key (keep_days, at, kafka_partition, kafka_offset)
) partition by list (keep_days);
create index webhook_id on webhook (id);
create index webhook_tenant on webhook (tenant, at);
create index webhook_sender on webhook (tenant, sender_id)
    where sender_id is not null;

-- Makes what is missing until three spans ahead. Owned by the migrating role,
-- called by the scheduler, which may not run DDL. Made apart and then attached:
-- that takes no lock which stops readers or writers.
create function ensure_webhook_partitions() returns int
    language plpgsql security definer
    set search_path = actionist, pg_temp
    set lock_timeout = '2s'
as $$
declare
    keep webhook_keep%rowtype;
    span interval;
    name text;
    made int := 0;
begin
    perform pg_advisory_xact_lock(1095779393, 46);
    for keep in select * from webhook_keep order by keep_days loop
        span := make_interval(hours => 24 * greatest(1, keep.keep_days / 3));
        while keep.to_at < fleet_now() + 3 * span loop
            name := format('webhook_k%s_%s', keep.keep_days,
                to_char(keep.to_at at time zone 'UTC', 'YYYYMMDD'));
            execute format('create table %I (like webhook including all)',
                name);
            execute format('alter table %I attach partition %I'
                ' for values from (%L) to (%L)',
                'webhook_k' || keep.keep_days, name, keep.to_at,
                keep.to_at + span);
            keep.to_at := keep.to_at + span;
            made := made + 1;
        end loop;
        update webhook_keep set to_at = keep.to_at
            where keep_days = keep.keep_days;
    end loop;
    return made;
end
$$;

-- Drops the partitions whose last row is older than their retention; how many.
create function drop_webhook_partitions() returns int
    language plpgsql security definer
    set search_path = actionist, pg_temp
    set lock_timeout = '500ms'
as $$
declare
    keep webhook_keep%rowtype;
    age interval;
    span interval;
    dropped int := 0;
begin
    perform pg_advisory_xact_lock(1095779393, 46);
    for keep in select * from webhook_keep order by keep_days loop
        age := make_interval(hours => 24 * keep.keep_days);
        span := make_interval(hours => 24 * greatest(1, keep.keep_days / 3));
        while keep.from_at + span <= fleet_now() - age
                and keep.from_at + span < keep.to_at loop
            execute format('drop table %I', format('webhook_k%s_%s',
                keep.keep_days,
                to_char(keep.from_at at time zone 'UTC', 'YYYYMMDD')));
            keep.from_at := keep.from_at + span;
            dropped := dropped + 1;
        end loop;
        update webhook_keep set from_at = keep.from_at
            where keep_days = keep.keep_days;
    end loop;
    return dropped;
end
$$;

-- What is there stays where it is; what comes from now on is kept so long.
create function keep_webhooks(of_tenant text, days int) returns void
    language plpgsql security definer
    set search_path = actionist, pg_temp
as $$
declare
    first constant timestamptz := date_trunc('day', fleet_now(), 'UTC')
        - make_interval(hours => 24 * days);
    span constant interval := make_interval(hours => 24 * greatest(1, days / 3));
    parent constant text := 'webhook_k' || days;
    name constant text := format('%s_%s', parent,
        to_char(first at time zone 'UTC', 'YYYYMMDD'));
begin
    perform pg_advisory_xact_lock(1095779393, 46);
    if not exists (select from webhook_keep where keep_days = days) then
        execute format('create table %I partition of webhook'
            ' for values in (%s) partition by range (at)', parent, days);
        execute format('create table %I partition of %I'
            ' for values from (%L) to (%L)', name, parent, first,
            first + span);
        insert into webhook_keep (keep_days, from_at, to_at)
            values (days, first, first + span);
        perform ensure_webhook_partitions();
    end if;
    if of_tenant is not null then
        insert into webhook_retention (tenant, keep_days)
            values (of_tenant, days)
            on conflict (tenant) do update set keep_days = excluded.keep_days;
    end if;
end
$$;
select keep_webhooks(null, 30);

grant select, insert on webhook to actionist_runtime;
grant select on webhook_keep, webhook_retention to actionist_runtime;
revoke execute on function ensure_webhook_partitions() from public;
revoke execute on function drop_webhook_partitions() from public;
revoke execute on function keep_webhooks(text, int) from public;
grant execute on function ensure_webhook_partitions() to actionist_runtime;
grant execute on function drop_webhook_partitions() to actionist_runtime;
