-- A mined transaction of which no endpoint says how it ended has no outcome. Nodes of the version before
-- run meanwhile and tell it so, with a name of their own they could not: its receipt has a status in
-- the column because they read none without. Every row there is was held to the stricter rule, so that
-- none has to be looked at.
ALTER TABLE tx
    DROP CONSTRAINT tx_mined_has_receipt,
    ADD CONSTRAINT tx_mined_has_receipt
        CHECK (state NOT IN ('TRACKING', 'CONFIRMED') OR receipt IS NOT NULL) NOT VALID;
