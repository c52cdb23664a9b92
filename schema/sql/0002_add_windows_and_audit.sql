-- Adds the rotation of the idempotency windows and what the audit remembers.
-- Lock cost: the two indexes lock their tables against writes while they are
-- built, seconds for millions of rows; everything else is new.

-- Blocks of action in order of acceptance, of outcome in order of its end: the
-- audit reads by time, a window is judged by its newest outcome.
create index action_accepted on action using brin (accepted_at);
create index outcome_window on outcome using brin (window_no, finished_at);

-- -- windows -----------------------------------------------------------------------

-- Closes the newest window and opens the next, unless it is younger than
-- min_age or empty; null: nothing was done. Claims hold the lock shared from
-- before they read the newest window until they commit, so none of them can
-- insert into one window while it looks its ids up in an older idea of the rest.
create function rotate_window(min_age interval) returns int
    language plpgsql security definer
    set search_path = actionist, pg_temp
    set lock_timeout = '1s'
as $$
declare
    newest action_window%rowtype;
    name text;
    is_used boolean;
begin
    perform pg_advisory_xact_lock(1095779393, 2);
    select * into newest from action_window order by number desc limit 1;
    select exists (select from action where window_no = newest.number)
        into is_used;
    if newest.opened_at > fleet_now() - min_age or not is_used then
        return null;
    end if;
    -- Made apart and then attached: that takes no lock which stops readers or
    -- writers of the other windows. The check spares attach its scan.
    name := format('action_w%s', newest.number + 1);
    execute format('create table %I (like action including defaults'
        ' including constraints including indexes,'
        ' constraint is_of_window check (window_no = %s))',
        name, newest.number + 1);
    execute format('alter table action attach partition %I for values in (%s)',
        name, newest.number + 1);
    update action_window set closed_at = fleet_now()
        where number = newest.number;
    insert into action_window (number) values (newest.number + 1);
    return newest.number + 1;
end
$$;

-- Drops a window, and the reservations older than it, if it is closed, all of
-- its actions are terminal and published (seq up to low), and the newest ended
-- longer ago than the retention. False: not yet. No action can enter a closed
-- window, and none can leave its last stage, so what is seen stays true.
create function drop_window(n int, low bigint, retention interval)
    returns boolean
    language plpgsql security definer
    set search_path = actionist, pg_temp
    set lock_timeout = '500ms'
as $$
declare
    closed timestamptz;
    is_kept boolean;
begin
    select closed_at into closed from action_window where number = n
        and closed_at is not null for update skip locked;
    if not found then
        return false;
    end if;
    select closed > fleet_now() - retention
        or exists (select from live where window_no = n)
        or exists (select from waiting where window_no = n)
        or exists (select from outcome o where o.window_no = n
            and o.finished_at > fleet_now() - retention)
        or exists (select from outcome o where o.window_no = n
            and o.seq > low)
        into is_kept;
    if is_kept then
        return false;
    end if;
    -- Last, since it reads the whole window: an action that lost its outcome is
    -- evidence, and keeps its window until somebody has looked into it.
    perform from action a where a.window_no = n and not exists (
        select from outcome o where o.id = a.id and o.window_no = n) limit 1;
    if found then
        return false;
    end if;
    execute format('drop table %I', format('action_w%s', n));
    delete from action_window where number = n;
    delete from reservation where reserved_at < closed;
    return true;
end
$$;

-- -- the audit ---------------------------------------------------------------------

-- How far a pass has judged. "command" and "scheduler" each have their own.
create table audit_mark (
    name text primary key,
    accepted_at timestamptz not null, -- actions accepted up to here
    seq bigint not null, -- outcomes up to here, all published then
    read_from jsonb not null, -- {"<partition>": first offset with a later seq}
    read_to jsonb not null, -- {"<partition>": next offset}
    updated_at timestamptz not null default fleet_now()
);

-- Actions up to the mark that had no single outcome when they were judged.
create table audit_open (
    name text not null,
    id uuid not null,
    window_no int not null,
    accepted_at timestamptz not null,
    primary key (name, id, window_no)
);

-- What was found wrong between outcomes and their topic; kept until the audit
-- starts from scratch.
create table audit_finding (
    name text not null,
    kind smallint not null check (kind between 1 and 8),
    what text not null, -- an action id, or partition:offset
    at timestamptz not null default fleet_now(),
    primary key (name, kind, what)
);

-- -- rights of the runtime role ----------------------------------------------------

grant select, insert, update, delete on audit_mark, audit_open, audit_finding
    to actionist_runtime;
revoke execute on function rotate_window(interval) from public;
revoke execute on function drop_window(int, bigint, interval) from public;
grant execute on function rotate_window(interval) to actionist_runtime;
grant execute on function drop_window(int, bigint, interval)
    to actionist_runtime;
