-- What retention goes by; see the PostgreSQL migration for what each is for.
CREATE INDEX tx_failed ON tx (chain_id, signer, position) WHERE state = 'FAILED';
CREATE INDEX nonce_hold_over ON nonce (chain_id, signer, nonce) WHERE owner_kind = 'hold' AND status = 'CONSUMED';
CREATE INDEX past_hold_released ON past_hold (released_at);
CREATE INDEX allocation_key_nonce ON allocation_key (chain_id, signer, nonce);

CREATE TRIGGER tx_is_kept_until_done BEFORE DELETE ON tx
    WHEN OLD.state NOT IN ('CONFIRMED', 'FAILED')
    BEGIN SELECT RAISE(ABORT, 'tx: what is not over is never removed'); END;

CREATE TRIGGER nonce_is_kept_until_consumed BEFORE DELETE ON nonce
    WHEN OLD.status <> 'CONSUMED'
    BEGIN SELECT RAISE(ABORT, 'nonce: what is not over is never removed'); END;
