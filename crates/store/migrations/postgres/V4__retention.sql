-- What retention goes by. Nothing here is touched by accepting, binding, sending or mining: every
-- index has only rows that are over, and its columns do not change before they are, so that updates
-- on the way still touch no index.

-- Transactions that failed, in order of acceptance. The confirmed ones are found by tx_done, lowest
-- block first.
CREATE INDEX tx_failed ON tx (chain_id, signer, position) WHERE phase = 'DONE' AND done_block IS NULL;

-- Holds that are over, among the nonces of transactions.
CREATE INDEX nonce_hold_over ON nonce (chain_id, signer, nonce) WHERE owner_kind = 'hold' AND status = 'CONSUMED';

-- Holds whose nonce was given out again, oldest first.
CREATE INDEX past_hold_released ON past_hold (released_at);

-- The idempotency key of a hold, by the hold's nonce.
CREATE INDEX allocation_key_nonce ON allocation_key (chain_id, signer, nonce);

-- What is not over is never removed.
CREATE FUNCTION refuse_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%: what is not over is never removed', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER tx_is_kept_until_done BEFORE DELETE ON tx FOR EACH ROW
    WHEN (OLD.phase <> 'DONE') EXECUTE FUNCTION refuse_removal();

CREATE TRIGGER nonce_is_kept_until_consumed BEFORE DELETE ON nonce FOR EACH ROW
    WHEN (OLD.status <> 'CONSUMED') EXECUTE FUNCTION refuse_removal();
