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

CREATE TABLE api_closed (
    one boolean NOT NULL DEFAULT true,
    since timestamp with time zone NOT NULL,
    CONSTRAINT api_closed_pkey PRIMARY KEY (one),
    CONSTRAINT api_closed_one_check CHECK (one)
);

CREATE TABLE api_key (
    key_id uuid NOT NULL,
    name text NOT NULL,
    hash bytea NOT NULL,
    hint text NOT NULL,
    operations text NOT NULL,
    signers bytea,
    created_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    networks text,
    last_used_at timestamp with time zone,
    replaced_by uuid,
    CONSTRAINT api_key_hash_key UNIQUE (hash),
    CONSTRAINT api_key_pkey PRIMARY KEY (key_id),
    CONSTRAINT api_key_replaced_by_fkey FOREIGN KEY (replaced_by) REFERENCES api_key(key_id) DEFERRABLE INITIALLY DEFERRED,
    CONSTRAINT api_key_admin_has_all_signers CHECK (((signers IS NULL) OR (operations !~ 'admin'::text))),
    CONSTRAINT api_key_expires_later CHECK ((expires_at > created_at)),
    CONSTRAINT api_key_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT api_key_hint_check CHECK (((octet_length(hint) >= 1) AND (octet_length(hint) <= 8))),
    CONSTRAINT api_key_name_check CHECK ((name ~ '^[A-Za-z0-9._-]{1,64}$'::text)),
    CONSTRAINT api_key_networks_check CHECK ((networks ~ '^[0-9a-f.:/]+(,[0-9a-f.:/]+)*$'::text)),
    CONSTRAINT api_key_operations_check CHECK ((operations ~ '^(read|send|operate|admin)(,(read|send|operate|admin))*$'::text)),
    CONSTRAINT api_key_replaced_ends CHECK (((replaced_by IS NULL) OR (expires_at IS NOT NULL))),
    CONSTRAINT api_key_signers_check CHECK (((octet_length(signers) > 0) AND ((octet_length(signers) % 20) = 0)))
);

CREATE TABLE attempt (
    tx_id uuid NOT NULL,
    number integer NOT NULL,
    hash bytea NOT NULL,
    raw bytea NOT NULL,
    fees json NOT NULL,
    gas_limit bigint NOT NULL,
    fencing_token bigint NOT NULL,
    created_at timestamp with time zone NOT NULL,
    last_sent_at timestamp with time zone,
    sends integer NOT NULL DEFAULT 0,
    said json,
    kind text NOT NULL DEFAULT 'SEND'::text,
    CONSTRAINT attempt_pkey PRIMARY KEY (tx_id, number),
    CONSTRAINT attempt_gas_limit_check CHECK ((gas_limit >= 0)),
    CONSTRAINT attempt_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT attempt_kind_is_known CHECK ((kind = ANY (ARRAY['SEND'::text, 'BUMP'::text, 'CANCEL'::text, 'GIVE_UP'::text]))),
    CONSTRAINT attempt_number_check CHECK ((number > 0)),
    CONSTRAINT attempt_raw_check CHECK ((octet_length(raw) > 0))
) WITH (fillfactor=50);

CREATE TABLE header (
    chain_id bigint NOT NULL,
    height bigint NOT NULL,
    hash bytea NOT NULL,
    parent bytea NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    replaced_at timestamp with time zone,
    CONSTRAINT header_pkey PRIMARY KEY (chain_id, height, hash),
    CONSTRAINT header_chain_id_check CHECK ((chain_id > 0)),
    CONSTRAINT header_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT header_height_check CHECK ((height >= 0)),
    CONSTRAINT header_parent_check CHECK ((octet_length(parent) = 32))
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
    timeline text,
    elsewhere text,
    restored_at timestamp with time zone,
    restored_from bigint,
    restored_to bigint,
    restore_settled_at timestamp with time zone,
    restored_number bigint NOT NULL DEFAULT 0,
    restored_begun boolean NOT NULL DEFAULT false,
    CONSTRAINT lane_pkey PRIMARY KEY (chain_id, signer),
    CONSTRAINT lane_chain_id_check CHECK ((chain_id > 0)),
    CONSTRAINT lane_elsewhere_check CHECK ((elsewhere = ANY (ARRAY['v1'::text, 'stopped'::text, 'share'::text]))),
    CONSTRAINT lane_fencing_token_check CHECK ((fencing_token > 0)),
    CONSTRAINT lane_last_chain_nonce_check CHECK ((last_chain_nonce >= 0)),
    CONSTRAINT lane_next_nonce_check CHECK ((next_nonce >= 0)),
    CONSTRAINT lane_paused_check CHECK ((paused <> ''::text)),
    CONSTRAINT lane_restore_is_numbered CHECK ((((restored_at IS NULL) = (restored_number = 0)) AND (restored_number >= 0) AND ((restored_at IS NOT NULL) OR (NOT restored_begun)))),
    CONSTRAINT lane_restore_is_whole CHECK ((((restored_at IS NULL) = (restored_from IS NULL)) AND ((restored_at IS NULL) = (restored_to IS NULL)) AND ((restored_at IS NOT NULL) OR (restore_settled_at IS NULL)) AND (restored_from <= restored_to))),
    CONSTRAINT lane_restored_from_check CHECK ((restored_from >= 0)),
    CONSTRAINT lane_signer_check CHECK ((octet_length(signer) = 20)),
    CONSTRAINT lane_timeline_check CHECK ((timeline <> ''::text))
) WITH (fillfactor=50);

CREATE TABLE lane_event (
    transaction bigint NOT NULL DEFAULT ((pg_current_xact_id())::text)::bigint,
    entry bigint NOT NULL DEFAULT nextval('tx_event_entry_seq'::regclass),
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    kind text NOT NULL,
    at timestamp with time zone NOT NULL,
    node_id text NOT NULL,
    fencing_token bigint,
    data json NOT NULL,
    CONSTRAINT lane_event_pkey PRIMARY KEY (transaction, entry),
    CONSTRAINT lane_event_chain_id_check CHECK ((chain_id > 0)),
    CONSTRAINT lane_event_kind_check CHECK ((kind <> ''::text)),
    CONSTRAINT lane_event_signer_check CHECK ((octet_length(signer) = 20))
);

CREATE TABLE lost_tx (
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    nonce bigint NOT NULL,
    hash bytea NOT NULL,
    block_number bigint NOT NULL,
    raw bytea,
    payload json,
    found_at timestamp with time zone NOT NULL,
    claimed_by uuid,
    CONSTRAINT lost_tx_claimed_by_key UNIQUE (claimed_by),
    CONSTRAINT lost_tx_pkey PRIMARY KEY (chain_id, signer, nonce),
    CONSTRAINT lost_tx_block_number_check CHECK ((block_number >= 0)),
    CONSTRAINT lost_tx_chain_id_check CHECK ((chain_id > 0)),
    CONSTRAINT lost_tx_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT lost_tx_is_claimed_by_what_it_does CHECK (((claimed_by IS NULL) OR (raw IS NOT NULL))),
    CONSTRAINT lost_tx_is_readable_or_not CHECK (((raw IS NULL) = (payload IS NULL))),
    CONSTRAINT lost_tx_nonce_check CHECK ((nonce >= 0)),
    CONSTRAINT lost_tx_raw_check CHECK ((octet_length(raw) > 0)),
    CONSTRAINT lost_tx_signer_check CHECK ((octet_length(signer) = 20))
);

CREATE TABLE node (
    node_id text NOT NULL,
    incarnation uuid NOT NULL,
    url text,
    mode text NOT NULL,
    serves text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    seen_at timestamp with time zone NOT NULL,
    draining boolean NOT NULL DEFAULT false,
    CONSTRAINT node_pkey PRIMARY KEY (node_id),
    CONSTRAINT node_check CHECK ((started_at <= seen_at)),
    CONSTRAINT node_mode_check CHECK ((mode = ANY (ARRAY['basic'::text, 'worker-queue'::text]))),
    CONSTRAINT node_node_id_check CHECK ((node_id <> ''::text))
);

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

CREATE TABLE origin (
    one boolean NOT NULL DEFAULT true,
    place text NOT NULL,
    losses bigint NOT NULL DEFAULT 0,
    lossy_in text,
    CONSTRAINT origin_pkey PRIMARY KEY (one),
    CONSTRAINT origin_one_check CHECK (one)
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

CREATE TABLE rollout_lane (
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    owner text NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    CONSTRAINT rollout_lane_pkey PRIMARY KEY (chain_id, signer),
    CONSTRAINT rollout_lane_chain_id_check CHECK ((chain_id > 0)),
    CONSTRAINT rollout_lane_owner_check CHECK ((owner = ANY (ARRAY['stile'::text, 'v1'::text, 'stopped'::text]))),
    CONSTRAINT rollout_lane_signer_check CHECK ((octet_length(signer) = 20))
);

CREATE TABLE rollout_share (
    chain_id bigint NOT NULL,
    percent smallint NOT NULL,
    CONSTRAINT rollout_share_pkey PRIMARY KEY (chain_id),
    CONSTRAINT rollout_share_chain_id_check CHECK ((chain_id > 0)),
    CONSTRAINT rollout_share_percent_check CHECK (((percent >= 0) AND (percent <= 100)))
);

CREATE TABLE rollout_version (
    one boolean NOT NULL DEFAULT true,
    version bigint NOT NULL,
    CONSTRAINT rollout_version_pkey PRIMARY KEY (one),
    CONSTRAINT rollout_version_one_check CHECK (one)
);

CREATE TABLE stream_history (
    number bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    history bigint NOT NULL,
    place text NOT NULL,
    timeline text NOT NULL,
    began bigint NOT NULL,
    reached bigint NOT NULL,
    noted_at timestamp with time zone NOT NULL,
    CONSTRAINT stream_history_history_key UNIQUE (history),
    CONSTRAINT stream_history_place_timeline_key UNIQUE (place, timeline),
    CONSTRAINT stream_history_pkey PRIMARY KEY (number),
    CONSTRAINT stream_history_history_check CHECK ((history > 0)),
    CONSTRAINT stream_history_timeline_check CHECK ((timeline <> ''::text))
);

CREATE TABLE tx (
    tx_id uuid NOT NULL,
    position bigint NOT NULL DEFAULT nextval('tx_position'::regclass),
    tenant text NOT NULL,
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    request_id text,
    request_hash bytea NOT NULL,
    payload json NOT NULL,
    finality text NOT NULL,
    gas_limit bigint,
    nonce bigint,
    state text NOT NULL,
    sub_state text,
    outcome text,
    tx_hash bytea,
    block_number bigint,
    block_hash bytea,
    receipt json,
    told_height bigint,
    told_hash bytea,
    error text,
    events integer NOT NULL,
    sends integer NOT NULL DEFAULT 0,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    first_submit_at timestamp with time zone,
    last_submit_at timestamp with time zone,
    next_resubmit_at timestamp with time zone,
    last_receipt_check_at timestamp with time zone,
    confirmed_at timestamp with time zone,
    phase text NOT NULL GENERATED ALWAYS AS (CASE state WHEN 'CREATED'::text THEN 'WAITING'::text WHEN 'CONFIRMED'::text THEN 'DONE'::text WHEN 'FAILED'::text THEN 'DONE'::text ELSE 'OPEN'::text END) STORED,
    rival json,
    rival_block bigint,
    wish json,
    replaces uuid,
    replaced_by uuid,
    done_block bigint GENERATED ALWAYS AS (CASE state WHEN 'CONFIRMED'::text THEN block_number WHEN 'FAILED'::text THEN rival_block ELSE NULL::bigint END) STORED,
    CONSTRAINT tx_pkey PRIMARY KEY (tx_id),
    CONSTRAINT tx_block_hash_check CHECK ((octet_length(block_hash) = 32)),
    CONSTRAINT tx_block_number_check CHECK ((block_number >= 0)),
    CONSTRAINT tx_chain_id_check CHECK ((chain_id > 0)),
    CONSTRAINT tx_events_check CHECK ((events > 0)),
    CONSTRAINT tx_finality_check CHECK ((finality ~ '^([0-9]+|safe|finalized)$'::text)),
    CONSTRAINT tx_gas_limit_check CHECK ((gas_limit >= 0)),
    CONSTRAINT tx_mined_has_receipt CHECK (((state <> ALL (ARRAY['TRACKING'::text, 'CONFIRMED'::text])) OR (receipt IS NOT NULL))) NOT VALID,
    CONSTRAINT tx_nonce_check CHECK ((nonce >= 0)),
    CONSTRAINT tx_nonce_fits_state CHECK (
CASE state
    WHEN 'CREATED'::text THEN (nonce IS NULL)
    WHEN 'FAILED'::text THEN true
    ELSE (nonce IS NOT NULL)
END),
    CONSTRAINT tx_outcome_check CHECK ((outcome = ANY (ARRAY['success'::text, 'reverted'::text]))),
    CONSTRAINT tx_receipt_is_whole CHECK ((((receipt IS NULL) = (block_number IS NULL)) AND ((receipt IS NULL) = (block_hash IS NULL)))),
    CONSTRAINT tx_request_hash_check CHECK ((octet_length(request_hash) = 32)),
    CONSTRAINT tx_request_id_check CHECK (((octet_length(request_id) >= 1) AND (octet_length(request_id) <= 255))),
    CONSTRAINT tx_rival_block_check CHECK ((rival_block >= 0)),
    CONSTRAINT tx_rival_is_whole CHECK (((rival IS NULL) = (rival_block IS NULL))),
    CONSTRAINT tx_signer_check CHECK ((octet_length(signer) = 20)),
    CONSTRAINT tx_state_check CHECK ((state = ANY (ARRAY['CREATED'::text, 'ALLOCATED'::text, 'SUBMITTED'::text, 'TRACKING'::text, 'CONFIRMED'::text, 'FAILED'::text]))),
    CONSTRAINT tx_sub_state_check CHECK ((sub_state = ANY (ARRAY['PENDING'::text, 'STALE'::text, 'UNDERPRICED'::text, 'INSUFFICIENT_FUNDS'::text, 'REORGED'::text, 'REVERTED'::text, 'CANCELLED'::text, 'REJECTED'::text, 'REPLACED_EXTERNALLY'::text, 'PAUSED'::text, 'RESTORED'::text, 'CLEARED'::text, 'ESTIMATING'::text]))),
    CONSTRAINT tx_told_hash_check CHECK ((octet_length(told_hash) = 32)),
    CONSTRAINT tx_told_height_check CHECK ((told_height >= 0)),
    CONSTRAINT tx_told_is_whole CHECK (((told_height IS NULL) = (told_hash IS NULL))),
    CONSTRAINT tx_tx_hash_check CHECK ((octet_length(tx_hash) = 32))
) WITH (fillfactor=50);

CREATE TABLE tx_event (
    tx_id uuid NOT NULL,
    seq integer NOT NULL,
    transaction bigint NOT NULL DEFAULT ((pg_current_xact_id())::text)::bigint,
    entry bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    tenant text NOT NULL,
    chain_id bigint NOT NULL,
    signer bytea NOT NULL,
    kind text NOT NULL,
    state text NOT NULL,
    sub_state text,
    at timestamp with time zone NOT NULL,
    node_id text NOT NULL,
    fencing_token bigint,
    data json NOT NULL,
    CONSTRAINT tx_event_pkey PRIMARY KEY (tx_id, seq),
    CONSTRAINT tx_event_kind_check CHECK ((kind <> ''::text)),
    CONSTRAINT tx_event_seq_check CHECK ((seq > 0)),
    CONSTRAINT tx_event_state_check CHECK ((state = ANY (ARRAY['CREATED'::text, 'ALLOCATED'::text, 'SUBMITTED'::text, 'TRACKING'::text, 'CONFIRMED'::text, 'FAILED'::text])))
);

CREATE INDEX allocation_key_nonce ON public.allocation_key USING btree (chain_id, signer, nonce);

CREATE UNIQUE INDEX api_key_name ON public.api_key USING btree (name) WHERE ((revoked_at IS NULL) AND (replaced_by IS NULL));

CREATE UNIQUE INDEX attempt_hash ON public.attempt USING btree (hash);

CREATE INDEX lane_event_of_lane ON public.lane_event USING btree (chain_id, signer, transaction, entry);

CREATE INDEX lane_restored ON public.lane USING btree (chain_id, signer) WHERE (restored_at IS NOT NULL);

CREATE INDEX lane_timeline ON public.lane USING btree (timeline);

CREATE INDEX lane_unaligned ON public.lane USING btree (chain_id, signer) WHERE ((timeline IS NULL) AND (next_nonce IS NOT NULL));

CREATE INDEX lost_tx_unclaimed ON public.lost_tx USING btree (chain_id, signer, nonce) WHERE (claimed_by IS NULL);

CREATE INDEX nonce_hold_over ON public.nonce USING btree (chain_id, signer, nonce) WHERE ((owner_kind = 'hold'::text) AND (status = 'CONSUMED'::text));

CREATE INDEX nonce_open ON public.nonce USING btree (chain_id, signer, nonce) WHERE (status <> 'CONSUMED'::text);

CREATE INDEX past_hold_released ON public.past_hold USING btree (released_at);

CREATE INDEX tx_done ON public.tx USING btree (chain_id, signer, done_block) WHERE (done_block IS NOT NULL);

CREATE INDEX tx_event_stream ON public.tx_event USING btree (transaction, entry);

CREATE INDEX tx_failed ON public.tx USING btree (chain_id, signer, "position") WHERE ((phase = 'DONE'::text) AND (done_block IS NULL));

CREATE INDEX tx_lost ON public.tx USING btree (chain_id, signer, "position") WHERE (rival_block IS NOT NULL);

CREATE INDEX tx_of_lane ON public.tx USING btree (tenant, chain_id, signer, "position");

CREATE INDEX tx_of_tenant ON public.tx USING btree (tenant, "position");

CREATE UNIQUE INDEX tx_open ON public.tx USING btree (chain_id, signer, nonce) WHERE (phase = 'OPEN'::text);

CREATE UNIQUE INDEX tx_replaces ON public.tx USING btree (replaces) WHERE (replaces IS NOT NULL);

CREATE UNIQUE INDEX tx_request ON public.tx USING btree (tenant, chain_id, signer, request_id) WHERE (request_id IS NOT NULL);

CREATE INDEX tx_waiting ON public.tx USING btree (chain_id, signer, "position") WHERE (phase = 'WAITING'::text);

CREATE INDEX tx_wish ON public.tx USING btree (chain_id, signer) WHERE (wish IS NOT NULL);

CREATE OR REPLACE FUNCTION public.api_closed_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION '%', CASE TG_TABLE_NAME
        WHEN 'api_key' THEN 'API keys are revoked, never removed'
        ELSE 'closed stays closed: there was an API key, and every call needs one'
    END USING ERRCODE = 'check_violation';
END $function$;

CREATE OR REPLACE FUNCTION public.api_key_closes()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    INSERT INTO api_closed (since) VALUES (NEW.created_at) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.api_key_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'API key %: %', OLD.key_id, CASE
        WHEN NEW.revoked_at IS DISTINCT FROM OLD.revoked_at THEN 'a revoked key stays revoked'
        WHEN NEW.replaced_by IS DISTINCT FROM OLD.replaced_by THEN 'it is rotated once'
        WHEN NEW.expires_at IS DISTINCT FROM OLD.expires_at THEN 'it never ends later than it was to'
        ELSE 'what it may do never changes'
    END USING ERRCODE = 'check_violation';
END $function$;

CREATE OR REPLACE FUNCTION public.lane_is_born()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    -- Most often the row is there, and only its holder changes.
    IF NOT EXISTS (SELECT FROM lane l WHERE l.chain_id = NEW.chain_id AND l.signer = NEW.signer) THEN
        PERFORM FROM rollout_version FOR SHARE;
        NEW.elsewhere := stile_elsewhere(NEW.chain_id, NEW.signer);
    END IF;
    RETURN NEW;
END $function$;

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

CREATE OR REPLACE FUNCTION public.lost_tx_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'lost transaction at nonce %: it is claimed once, as it is, and never changes then', OLD.nonce
        USING ERRCODE = 'check_violation';
END $function$;

CREATE OR REPLACE FUNCTION public.node_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'node %: a process never takes the place of one that started later', OLD.node_id
        USING ERRCODE = 'check_violation';
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

CREATE OR REPLACE FUNCTION public.refuse_removal()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION '%: what is not over is never removed', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $function$;

CREATE OR REPLACE FUNCTION public.rollout_is_changed()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock(stile_ownership_lock());
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.stile_awaits_word(l lane, t tx)
 RETURNS boolean
 LANGUAGE sql
AS $function$
    SELECT stile_is_marked(l, t)
        OR ((l).next_nonce IS NOT NULL AND (t).tenant <> 'stile:filler'
            AND (l).timeline IS DISTINCT FROM stile_timeline())
$function$;

CREATE OR REPLACE FUNCTION public.stile_bucket(signer bytea)
 RETURNS integer
 LANGUAGE sql
 IMMUTABLE
AS $function$
    SELECT (get_byte(sha256(signer), 0) * 65536 + get_byte(sha256(signer), 1) * 256
            + get_byte(sha256(signer), 2)) % 100
$function$;

CREATE OR REPLACE FUNCTION public.stile_elsewhere(lane_chain bigint, lane_signer bytea)
 RETURNS text
 LANGUAGE sql
AS $function$
    SELECT CASE
        WHEN l.owner = 'stile' THEN NULL
        WHEN l.owner IS NOT NULL THEN l.owner
        WHEN stile_bucket(lane_signer) >= s.percent THEN 'share'
    END
    FROM (SELECT) one
    LEFT JOIN rollout_lane l ON l.chain_id = lane_chain AND l.signer = lane_signer
    LEFT JOIN rollout_share s ON s.chain_id = lane_chain
$function$;

CREATE OR REPLACE FUNCTION public.stile_history()
 RETURNS bigint
 LANGUAGE sql
AS $function$
    SELECT h.history
    FROM stream_history h
    WHERE h.timeline = stile_timeline() AND h.place = coalesce((SELECT o.place FROM origin o), '')
$function$;

CREATE OR REPLACE FUNCTION public.stile_is_like_lost(of_chain bigint, of_signer bytea, of_payload json)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
    SELECT EXISTS (SELECT FROM lost_tx f
                   WHERE f.chain_id = of_chain AND f.signer = of_signer AND f.claimed_by IS NULL
                     AND f.payload->>'to' IS NOT DISTINCT FROM of_payload->>'to'
                     AND f.payload->>'value' = of_payload->>'value'
                     AND f.payload->>'data' = of_payload->>'data'
                     -- What has it as an attempt is what it was sent for; or its caller has said so.
                     AND NOT EXISTS (SELECT FROM attempt a WHERE a.hash = f.hash)
                     AND NOT EXISTS (SELECT FROM nonce n
                                     WHERE n.chain_id = f.chain_id AND n.signer = f.signer
                                       AND n.nonce = f.nonce AND n.owner_kind = 'hold'
                                       AND n.tx_hash = f.hash))
$function$;

CREATE OR REPLACE FUNCTION public.stile_is_marked(l lane, t tx)
 RETURNS boolean
 LANGUAGE sql
 STABLE
AS $function$
    SELECT (l).restored_at IS NOT NULL
       AND NOT EXISTS (SELECT FROM tx_event e
                       WHERE e.tx_id = (t).tx_id AND e.kind = 'CLEARED'
                         AND (e.data->>'mark')::bigint = (l).restored_number)
       AND (t).tenant <> 'stile:filler'
       AND ((l).restore_settled_at IS NULL OR stile_is_like_lost((t).chain_id, (t).signer, (t).payload))
$function$;

CREATE OR REPLACE FUNCTION public.stile_lanes_elsewhere(chains bigint[], signers bytea[])
 RETURNS TABLE(chain_id bigint, signer bytea, elsewhere text)
 LANGUAGE plpgsql
AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(stile_ownership_lock());
    -- Most often nothing was ever said.
    IF EXISTS (SELECT FROM rollout_lane) OR EXISTS (SELECT FROM rollout_share) THEN
        RETURN QUERY
            SELECT e.chain_id, e.signer, e.why
            FROM (SELECT w.chain_id, w.signer, stile_elsewhere(w.chain_id, w.signer) AS why
                  FROM (SELECT DISTINCT * FROM unnest(chains, signers)) AS w (chain_id, signer)
                  OFFSET 0) e
            WHERE e.why IS NOT NULL;
    END IF;
END $function$;

CREATE OR REPLACE FUNCTION public.stile_may_be_lost(of_status text, of_reason text, of_time timestamp with time zone, lane_restored timestamp with time zone)
 RETURNS boolean
 LANGUAGE sql
 IMMUTABLE
AS $function$
    SELECT (of_status <> 'CONSUMED' AND of_time < lane_restored)
        OR (of_status = 'SUSPECT' AND of_reason = 'given out before the database lost its last commits')
$function$;

CREATE OR REPLACE FUNCTION public.stile_ownership_lock()
 RETURNS bigint
 LANGUAGE sql
 IMMUTABLE
AS $function$
    SELECT hashtextextended('stile ownership of lanes', 0)
$function$;

CREATE OR REPLACE FUNCTION public.stile_place()
 RETURNS text
 LANGUAGE sql
AS $function$
    SELECT substr(stile_timeline(), 10)
$function$;

CREATE OR REPLACE FUNCTION public.stile_recovered_to(since text)
 RETURNS text
 LANGUAGE plpgsql
 STABLE
AS $function$
DECLARE
    file text := 'pg_wal/' || left(stile_timeline(), 8) || '.history';
    why  text;
BEGIN
    SELECT string_agg(split_part(line, E'\t', 3), '; ') INTO why
    FROM regexp_split_to_table(pg_read_file(file, 0, 1000000, true), E'\n') AS line
    WHERE line ~ '^[0-9]+\t' AND split_part(line, E'\t', 3) NOT LIKE 'no recovery target specified%'
      AND split_part(line, E'\t', 1)::bigint >= ('x' || lpad(left(since, 8), 16, '0'))::bit(64)::bigint;
    RETURN why;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $function$;

CREATE OR REPLACE FUNCTION public.stile_refuse_truncate()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
BEGIN
    RAISE EXCEPTION 'TRUNCATE of %: Stile would not know that its data were replaced, and could pay twice', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation',
              HINT = 'To restore a backup, use pg_restore --clean, or load it into an empty database.';
END $function$;

CREATE OR REPLACE FUNCTION public.stile_timeline()
 RETURNS text
 LANGUAGE sql
AS $function$
    SELECT stile_timeline(to_regclass('lane'))
$function$;

CREATE OR REPLACE FUNCTION public.stile_timeline(lanes oid)
 RETURNS text
 LANGUAGE sql
AS $function$
    SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) || '/'
        || substring(pg_relation_filepath(lanes) from '([0-9]+)/[^/]*$') || '/' || lanes
$function$;

CREATE OR REPLACE FUNCTION public.tx_refuse()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
DECLARE
    why text;
BEGIN
    why := CASE
        WHEN NEW.nonce IS DISTINCT FROM OLD.nonce AND OLD.nonce IS NOT NULL THEN 'a bound nonce never changes'
        WHEN NEW.events < OLD.events THEN 'its history never gets shorter'
        WHEN NEW.chain_id <> OLD.chain_id OR NEW.signer <> OLD.signer THEN 'it stays on its lane'
        WHEN NOT EXISTS (SELECT FROM tx s
                         WHERE s.tx_id = OLD.replaced_by AND s.state = 'FAILED' AND s.nonce IS NULL)
            THEN 'it has a successor and is never sent again'
    END;
    IF why IS NULL THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'transaction %: %', OLD.tx_id, why USING ERRCODE = 'check_violation';
END $function$;

CREATE TRIGGER api_closed_stays BEFORE DELETE OR UPDATE OR TRUNCATE ON public.api_closed FOR EACH STATEMENT EXECUTE FUNCTION api_closed_refuse();

CREATE TRIGGER api_key_closes AFTER INSERT ON public.api_key FOR EACH ROW EXECUTE FUNCTION api_key_closes();

CREATE TRIGGER api_key_rules BEFORE UPDATE ON public.api_key FOR EACH ROW WHEN ((((old.revoked_at IS NOT NULL) AND (new.revoked_at IS DISTINCT FROM old.revoked_at)) OR ((old.replaced_by IS NOT NULL) AND (new.replaced_by IS DISTINCT FROM old.replaced_by)) OR (new.hash <> old.hash) OR (new.operations <> old.operations) OR (new.signers IS DISTINCT FROM old.signers) OR (new.networks IS DISTINCT FROM old.networks) OR ((old.expires_at IS NOT NULL) AND ((new.expires_at IS NULL) OR (new.expires_at > old.expires_at))))) EXECUTE FUNCTION api_key_refuse();

CREATE TRIGGER api_key_stays BEFORE DELETE OR TRUNCATE ON public.api_key FOR EACH STATEMENT EXECUTE FUNCTION api_closed_refuse();

CREATE TRIGGER attempt_truncate BEFORE TRUNCATE ON public.attempt FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();

CREATE TRIGGER lane_birth BEFORE INSERT ON public.lane FOR EACH ROW EXECUTE FUNCTION lane_is_born();

CREATE TRIGGER lane_is_never_deleted BEFORE DELETE ON public.lane FOR EACH ROW EXECUTE FUNCTION lane_refuse();

CREATE TRIGGER lane_rules BEFORE UPDATE ON public.lane FOR EACH ROW WHEN (((new.fencing_token <= old.fencing_token) AND ((new.fencing_token < old.fencing_token) OR (new.owner_incarnation <> old.owner_incarnation) OR (new.next_nonce < old.next_nonce) OR ((new.next_nonce IS NULL) AND (old.next_nonce IS NOT NULL))))) EXECUTE FUNCTION lane_refuse();

CREATE TRIGGER lane_truncate BEFORE TRUNCATE ON public.lane FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();

CREATE TRIGGER lane_event_truncate BEFORE TRUNCATE ON public.lane_event FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();

CREATE TRIGGER lost_tx_rules BEFORE UPDATE ON public.lost_tx FOR EACH ROW WHEN (((old.claimed_by IS NOT NULL) OR ((new.claimed_by IS NOT NULL) AND ((new.hash <> old.hash) OR (new.raw IS DISTINCT FROM old.raw))))) EXECUTE FUNCTION lost_tx_refuse();

CREATE TRIGGER lost_tx_truncate BEFORE TRUNCATE ON public.lost_tx FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();

CREATE TRIGGER node_rules BEFORE UPDATE ON public.node FOR EACH ROW WHEN (((new.incarnation <> old.incarnation) AND (new.started_at <= old.started_at))) EXECUTE FUNCTION node_refuse();

CREATE TRIGGER nonce_is_kept_until_consumed BEFORE DELETE ON public.nonce FOR EACH ROW WHEN ((old.status <> 'CONSUMED'::text)) EXECUTE FUNCTION refuse_removal();

CREATE TRIGGER nonce_rules BEFORE UPDATE ON public.nonce FOR EACH ROW WHEN ((((old.status = 'CONSUMED'::text) AND (new.status <> 'CONSUMED'::text)) OR ((new.owner_id <> old.owner_id) AND (old.status <> 'RELEASED'::text)))) EXECUTE FUNCTION nonce_refuse();

CREATE TRIGGER nonce_truncate BEFORE TRUNCATE ON public.nonce FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();

CREATE TRIGGER origin_truncate BEFORE TRUNCATE ON public.origin FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();

CREATE TRIGGER rollout_change BEFORE UPDATE ON public.rollout_version FOR EACH STATEMENT EXECUTE FUNCTION rollout_is_changed();

CREATE TRIGGER tx_is_kept_until_done BEFORE DELETE ON public.tx FOR EACH ROW WHEN ((old.phase <> 'DONE'::text)) EXECUTE FUNCTION refuse_removal();

CREATE TRIGGER tx_rules BEFORE UPDATE ON public.tx FOR EACH ROW WHEN ((((old.nonce IS NOT NULL) AND (new.nonce IS DISTINCT FROM old.nonce)) OR (new.events < old.events) OR (new.chain_id <> old.chain_id) OR (new.signer <> old.signer) OR ((old.replaced_by IS NOT NULL) AND (old.state = 'FAILED'::text) AND (new.state <> 'FAILED'::text)))) EXECUTE FUNCTION tx_refuse();

CREATE TRIGGER tx_truncate BEFORE TRUNCATE ON public.tx FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();

CREATE TRIGGER tx_event_truncate BEFORE TRUNCATE ON public.tx_event FOR EACH STATEMENT EXECUTE FUNCTION stile_refuse_truncate();

COMMENT ON table api_closed IS 'There was an API key once: no server on this database is open to all again';

COMMENT ON table api_key IS 'Who may call, what for, and for which signers';

COMMENT ON table attempt IS 'Every signed transaction, written before it is sent';

COMMENT ON table lane IS 'Lease and cursor of each signer on each chain';

COMMENT ON table lane_event IS 'What happened to each lane, in order';

COMMENT ON table lost_tx IS 'What the chain has and a restored database had forgotten';

COMMENT ON table node IS 'Who shares this database, and when it was last heard of';

COMMENT ON table nonce IS 'Every nonce ever given out, and who has it';

COMMENT ON table origin IS 'The server and the table that the lanes were last known in';

COMMENT ON table rollout_lane IS 'Whose lanes are, while they are moved: stile, v1, or stopped in between';

COMMENT ON table stream_history IS 'The histories of this database that places in the stream belong to';

COMMENT ON table tx IS 'Managed transactions and where they stand';

COMMENT ON table tx_event IS 'What happened to each transaction, in order';
