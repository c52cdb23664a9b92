-- Adds the sources of webhooks: who may deliver, and how that is checked.
-- Lock cost: none, everything is new.

create table webhook_source (
    tenant text not null,
    source text not null,
    scheme text not null, -- a row of schema/signature_schemes.c
    parameter text not null default '', -- URL or webhook id, if it is signed
    -- Sealed under a master key that is never in here (common/seal.h); the
    -- sealed text begins with the number of its master key.
    secret_no int not null default 1 check (secret_no > 0),
    secret bytea not null,
    old_secret bytea, -- secret_no - 1, taken until old_until
    old_until timestamptz,
    verify_token bytea,
    keeps_rejected boolean not null default false,
    max_body_bytes int not null check (max_body_bytes between 1 and 1048576),
    rate_per_s int not null check (rate_per_s between 1 and 100000),
    answer_ms int not null check (answer_ms between 100 and 8000),
    is_disabled boolean not null default false,
    version bigint not null default 1 check (version > 0), -- of this row
    created_at timestamptz not null default fleet_now(),
    changed_at timestamptz not null default fleet_now(),
    primary key (tenant, source),
    check ((old_secret is null) = (old_until is null))
);

grant select on webhook_source to actionist_runtime;
