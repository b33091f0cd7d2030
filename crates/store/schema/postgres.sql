-- The schema as the migrations leave it, for reviews. Not run by anything. To write it anew:
-- STILE_UPDATE_SCHEMA=1 cargo test -p stile-store --test schema

CREATE TABLE allocation_key (
    tenant text NOT NULL,
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    idempotency_key text NOT NULL,
    nonce bigint NOT NULL,
    hold_id uuid NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT allocation_key_pkey PRIMARY KEY (tenant, chain_id, signer, idempotency_key),
    CONSTRAINT allocation_key_idempotency_key_check CHECK (((octet_length(idempotency_key) >= 1) AND (octet_length(idempotency_key) <= 255)))
);

CREATE TABLE lane (
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    owner_node text NOT NULL,
    owner_incarnation uuid NOT NULL,
    owner_url text,
    fencing_token bigint NOT NULL,
    acquired_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    next_nonce bigint,
    last_chain_nonce bigint,
    paused text,
    CONSTRAINT lane_pkey PRIMARY KEY (chain_id, signer),
    CONSTRAINT lane_chain_id_check CHECK ((chain_id > 0)),
    CONSTRAINT lane_fencing_token_check CHECK ((fencing_token > 0)),
    CONSTRAINT lane_last_chain_nonce_check CHECK ((last_chain_nonce >= 0)),
    CONSTRAINT lane_next_nonce_check CHECK ((next_nonce >= 0)),
    CONSTRAINT lane_paused_check CHECK ((paused <> ''::text)),
    CONSTRAINT lane_signer_check CHECK ((octet_length(signer) = 20))
) WITH (fillfactor=50);

CREATE TABLE nonce (
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    nonce bigint NOT NULL,
    owner_kind text NOT NULL,
    owner_id uuid NOT NULL,
    status text NOT NULL,
    locked_until timestamp with time zone NOT NULL,
    tx_hash bytea,
    reason text,
    fencing_token bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT nonce_pkey PRIMARY KEY (chain_id, signer, nonce),
    CONSTRAINT nonce_check CHECK (((tx_hash IS NULL) OR (status = 'CONSUMED'::text))),
    CONSTRAINT nonce_nonce_check CHECK ((nonce >= 0)),
    CONSTRAINT nonce_owner_kind_check CHECK ((owner_kind = ANY (ARRAY['hold'::text, 'tx'::text, 'filler'::text]))),
    CONSTRAINT nonce_status_check CHECK ((status = ANY (ARRAY['HELD'::text, 'CONSUMED'::text, 'RELEASED'::text, 'SUSPECT'::text]))),
    CONSTRAINT nonce_tx_hash_check CHECK ((octet_length(tx_hash) = 32))
);

CREATE TABLE past_hold (
    hold_id uuid NOT NULL,
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    nonce bigint NOT NULL,
    locked_until timestamp with time zone NOT NULL,
    reason text,
    released_at timestamp with time zone NOT NULL,
    CONSTRAINT past_hold_pkey PRIMARY KEY (hold_id)
);

CREATE INDEX nonce_open ON public.nonce USING btree (chain_id, signer, nonce) WHERE (status <> 'CONSUMED'::text);

CREATE OR REPLACE FUNCTION public.lane_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'lane %: %', encode(OLD.signer, 'hex'), CASE
        WHEN TG_OP = 'DELETE' THEN 'a lane row is never deleted'
        WHEN NEW.fencing_token < OLD.fencing_token THEN 'the fencing token never falls'
        WHEN NEW.owner_incarnation <> OLD.owner_incarnation THEN 'a new incarnation must raise the fencing token'
        ELSE 'the cursor only moves back together with a raised token'
    END USING ERRCODE = 'check_violation';
END $function$;

CREATE OR REPLACE FUNCTION public.nonce_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'nonce % of %: %', OLD.nonce, encode(OLD.signer, 'hex'), CASE
        WHEN OLD.status = 'CONSUMED' THEN 'CONSUMED is absorbing'
        ELSE 'only a RELEASED nonce is given out again'
    END USING ERRCODE = 'check_violation';
END $function$;

CREATE TRIGGER lane_is_never_deleted BEFORE DELETE ON public.lane FOR EACH ROW EXECUTE FUNCTION lane_refuse();

CREATE TRIGGER lane_rules BEFORE UPDATE ON public.lane FOR EACH ROW WHEN (((new.fencing_token <= old.fencing_token) AND ((new.fencing_token < old.fencing_token) OR (new.owner_incarnation <> old.owner_incarnation) OR (new.next_nonce < old.next_nonce) OR ((new.next_nonce IS NULL) AND (old.next_nonce IS NOT NULL))))) EXECUTE FUNCTION lane_refuse();

CREATE TRIGGER nonce_rules BEFORE UPDATE ON public.nonce FOR EACH ROW WHEN ((((old.status = 'CONSUMED'::text) AND (new.status <> 'CONSUMED'::text)) OR ((new.owner_id <> old.owner_id) AND (old.status <> 'RELEASED'::text)))) EXECUTE FUNCTION nonce_refuse();

COMMENT ON table lane IS 'Lease and cursor of each signer on each chain';

COMMENT ON table nonce IS 'Every nonce ever given out, and who has it';
