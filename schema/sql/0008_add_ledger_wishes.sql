-- Adds the one way to say how long the ledger of a tenant is kept, which makes
-- the partitions for it before anybody writes there.
-- Lock cost: none.

-- False: there are too many different numbers of days already; each makes
-- partitions of its own.
create function keep_ledger(t text, days int, who text) returns boolean
    language plpgsql
    set search_path = actionist, pg_temp
as $$
begin
    if (select count(*) from (select k.keep_days from ledger_keep k
            where k.tenant <> t union select days union select 90) d) > 12 then
        return false;
    end if;
    insert into ledger_keep (tenant, keep_days) values (t, days)
        on conflict (tenant) do update
        set keep_days = excluded.keep_days, changed_at = fleet_now();
    perform ensure_partitions();
    insert into ledger (tenant, keep_days, kind, actor, detail)
        values (t, days, 5, who, convert_to(json_build_object(
            'op', 'keep', 'days', days)::text, 'UTF8'));
    return true;
end
$$;
revoke execute on function keep_ledger(text, int, text) from public;
