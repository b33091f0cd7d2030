//! Every error code there is. Codes are stable: clients may match on them.

use axum::http::StatusCode;

macro_rules! codes {
    ($($variant:ident $text:literal $status:ident $title:literal $hint:literal;)*) => {
        /// A stable name for what went wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $title] $variant,)*
        }

        impl Code {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The code as clients see it.
            pub fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The HTTP status it comes with.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            /// What it means, in a few words.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }

            /// What to do about it.
            pub fn hint(self) -> &'static str {
                match self { $(Self::$variant => $hint,)* }
            }
        }
    };
}

codes! {
    MalformedJson "malformed-json" BAD_REQUEST "The body is not JSON"
        "Send one JSON object; the detail says where the text breaks off.";
    InvalidField "invalid-field" UNPROCESSABLE_ENTITY "A field is missing, unknown or has a bad value"
        "The errors list names each field and what is wrong with it.";
    UnsupportedMediaType "unsupported-media-type" UNSUPPORTED_MEDIA_TYPE "The body must be application/json"
        "Send the header Content-Type: application/json with every POST, PUT, PATCH and DELETE, even if the body is empty: a page of another site cannot.";
    UnknownHost "unknown-host" MISDIRECTED_REQUEST "The call is not for this server"
        "Call it by localhost, an IP address that it listens on, the host of cluster.advertise_url, or a name in server.hosts. A name that anybody could point here is not taken.";
    ForeignOrigin "foreign-origin" FORBIDDEN "A page of another site makes the call"
        "Make the call from a program, or from a page of this server. If the server is behind a proxy, add the name that browsers know it by to server.hosts.";
    BodyTooLarge "body-too-large" PAYLOAD_TOO_LARGE "The body is too large"
        "POST /api/v1/tx takes 512 KiB, POST /api/v1/tx/batch 16 MiB, every other call 64 KiB.";
    BodyTooSlow "body-too-slow" REQUEST_TIMEOUT "The body did not come in time"
        "Send it in one go. Whoever runs the server sets the time: server.limits.body_timeout.";
    Unauthorized "unauthorized" UNAUTHORIZED "The call comes without a good API key"
        "Send the header Authorization: Bearer <key>. `stile key create` makes a key, `stile key list` says which ones are good.";
    CallersKey "callers-key" UNAUTHORIZED "The API key is not good any more where the call was passed on to"
        "Nothing was done. The key was revoked or has ended a moment ago, and one node knew it before the other. `stile key list` says which keys are good.";
    Forbidden "forbidden" FORBIDDEN "The API key is not for this"
        "The detail names the operation that is needed. What a key may do never changes: an admin makes another one.";
    KeyNotFound "key-not-found" NOT_FOUND "There is no such API key"
        "GET /api/v1/keys?all=true lists those there are, and those there were.";
    KeyNameTaken "key-name-taken" CONFLICT "Another API key has this name"
        "Revoke that one first, or choose another name. A key that has expired keeps its name until it is revoked.";
    KeyEnded "key-ended" CONFLICT "The API key was revoked or rotated before"
        "GET /api/v1/keys?all=true lists all keys; replacedBy is the one that took its place. Rotate that one, or make a new key.";
    TooManyWrongKeys "too-many-wrong-keys" TOO_MANY_REQUESTS "Too many wrong API keys came from this address"
        "Check the key. A good one is let in at any time; one that was made this very second is after Retry-After.";
    RateLimited "rate-limited" TOO_MANY_REQUESTS "Too many calls by this API key, or from this address"
        "Come back after Retry-After. RateLimit-Limit and RateLimit-Remaining come with every answer; a batch costs as many calls as it has transactions. Whoever runs the server sets them: server.limits.";
    TooManyStreams "too-many-streams" TOO_MANY_REQUESTS "This API key has too many streams and WebSockets open"
        "Close some, or come back after Retry-After. Whoever runs the server sets how many: server.limits.streams_per_key.";
    NotFound "not-found" NOT_FOUND "There is nothing at this path"
        "See /docs or /openapi.json for the paths there are.";
    MethodNotAllowed "method-not-allowed" METHOD_NOT_ALLOWED "This path does not take this method"
        "The Allow header names the methods it takes.";
    UnknownSigner "unknown-signer" NOT_FOUND "This server does not serve this signer on this chain"
        "Add the address under [[signer]], or ask GET /api/v1/signers for those it serves.";
    UnknownChain "unknown-chain" NOT_FOUND "This server does not follow this chain"
        "Add a [[chain]] with this id, or ask GET /api/v1/chains for those it follows.";
    ChainRequired "chain-required" UNPROCESSABLE_ENTITY "More than one chain is configured: say which"
        "Give chainId.";
    TxNotFound "tx-not-found" NOT_FOUND "There is no such transaction"
        "Check txId, or signer and requestId, against the answer to POST /api/v1/tx.";
    NoKey "no-key" UNPROCESSABLE_ENTITY "Stile has no key for this signer on this chain"
        "Give the signer a key for this chain under [[signer]], or take bare nonces (POST /api/v1/nonces/{signer}/allocate) and sign yourself.";
    NoEndpoints "no-endpoints" UNPROCESSABLE_ENTITY "No endpoint is configured for this chain"
        "Add endpoints to the [[chain]].";
    EstimationReverted "estimation-reverted" UNPROCESSABLE_ENTITY "The transaction would be reverted"
        "Nothing was taken and nothing was paid. reason and data are the contract's words. To send it all the same, give payload.gasLimit.";
    EstimationFailed "estimation-failed" UNPROCESSABLE_ENTITY "The gas could not be estimated"
        "Nothing was taken. The detail is the chain node's word, often that the account cannot pay. To send it all the same, give payload.gasLimit.";
    RequestIdReused "request-id-reused" UNPROCESSABLE_ENTITY "The request id belongs to a different request"
        "txId is the transaction that has it. Use a fresh requestId for a new transaction, and the same body to ask for the same one again.";
    NoNonceYet "no-nonce-yet" CONFLICT "The transaction has no nonce yet, so there is nothing to speed up"
        "It waits for its turn. GET /api/v1/signers/{signer}/doctor says what holds its signer up.";
    AwaitsWord "awaits-word" CONFLICT "The transaction may have been sent before the database was restored"
        "It is not withdrawn, since the chain may have it. Say what became of it: POST /api/v1/tx/{txId}/restored, or stile tx restored.";
    TooLate "too-late" CONFLICT "The transaction is in a block already, or it is done"
        "GET /api/v1/tx/{txId} says what became of it.";
    FeeLimit "fee-limit" UNPROCESSABLE_ENTITY "The fees are above what is allowed"
        "The detail names the limit: max_fee_gwei of the [[chain]] or, where that is not set, ten times what the chain asks for now and 100 gwei at least. Offer less, or have whoever runs the server raise it.";
    GasLimit "gas-limit" UNPROCESSABLE_ENTITY "No block has room for so much gas"
        "most is the limit, which the chain's endpoints say. Ask for less gas, or leave payload.gasLimit out to have it estimated.";
    GasBelowIntrinsic "gas-below-intrinsic" UNPROCESSABLE_ENTITY "The gas limit is below what the transaction costs before anything of it is run"
        "Nothing was taken: no block would have it, and nothing behind it would be mined. least is what payload.gasLimit would have to be, and what is run costs more on top; leave it out to have it estimated. For a chain that counts gas by rules of its own, set intrinsic_gas of its [[chain]] to \"unchecked\".";
    InsufficientFunds "insufficient-funds" UNPROCESSABLE_ENTITY "The account cannot pay for it and for what is open on its lane"
        "Nothing was taken. least is what the account would have to have in wei, balance what it has, queued what everything open on its lane may cost. Send it money, or wait until some of that is mined. To have such requests taken and wait for money, set lane.underfunded to \"wait\".";
    FinalityUnavailable "finality-unavailable" UNPROCESSABLE_ENTITY "The chain does not give this finality"
        "Nothing was taken. The detail names what the chain gives. Where the request named none, confirmations.finality asks for it: have whoever runs the server set confirmations.required.";
    FeeTooLow "fee-too-low" UNPROCESSABLE_ENTITY "The fees are too low to replace what was sent before"
        "The detail names the least. Leave the fees out to have the policy choose them.";
    LaneNotStarted "lane-not-started" CONFLICT "Nobody has used this signer yet"
        "A lane exists from its first allocation on.";
    HoldNotFound "hold-not-found" NOT_FOUND "There is no such hold"
        "Check signer, nonce and holdId against the answer of the allocation.";
    HoldConflict "hold-conflict" CONFLICT "The hold has been marked otherwise already"
        "The hold in the answer is how it stands. CONSUMED is never undone.";
    HoldSuperseded "hold-superseded" CONFLICT "The nonce was released and given to another caller since"
        "Do not send with this nonce. If it was sent after all, tell an operator: two transactions compete for it.";
    LanePaused "lane-paused" CONFLICT "The lane is paused"
        "GET /api/v1/signers/{signer}/doctor says why. An operator resumes it: POST /api/v1/signers/{signer}/resume.";
    LaneNotOwned "lane-not-owned" CONFLICT "Stile does not give out this signer's nonces"
        "The detail says who does: ask there. An operator moves a signer to Stile with stile import-v1; stile rollout show lists whose each is.";
    NotHolder "not-holder" CONFLICT "Another node holds this lane"
        "Repeat the call at the URL in Stile-Owner-Url, or here after Retry-After.";
    Fenced "fenced" CONFLICT "Another node took the lane in the middle of the call; nothing was written"
        "Repeat the call at the URL in Stile-Owner-Url, or here after Retry-After.";
    HolderUnreachable "holder-unreachable" SERVICE_UNAVAILABLE "The node that holds this lane does not answer"
        "Come back after Retry-After, with the same Idempotency-Key. If that node is gone, another one takes the lane soon after its lease.";
    NotANode "not-a-node" FORBIDDEN "The call says that a node has passed it on, and does not prove it"
        "Only nodes send Stile-Forwarded. Give every node the same cluster.secret, and run the same version on all of them.";
    NotAddressee "not-addressee" MISDIRECTED_REQUEST "The call was passed on to another node, or to an earlier start of this one"
        "Nothing was done. The node that passed it on asks again for who holds the lane, by itself.";
    QueueFull "queue-full" TOO_MANY_REQUESTS "Too many calls are waiting"
        "Come back after Retry-After. If it persists, raise nonce.worker_queue_capacity or spread the load over signers.";
    StoreUnavailable "store-unavailable" SERVICE_UNAVAILABLE "The database does not answer"
        "Come back after Retry-After; send an Idempotency-Key to get the same answer if the call did go through.";
    ChainUnavailable "chain-unavailable" SERVICE_UNAVAILABLE "The chain does not answer"
        "Check [[chain]] endpoints. Lanes that were compared with it before go on without it.";
    LaneUnaligned "lane-unaligned" SERVICE_UNAVAILABLE "The lane waits to be compared with its chain"
        "The database failed over or was restored, or the node has just started. Check [[chain]] endpoints: the lane goes on by itself.";
    NotRestored "not-restored" CONFLICT "Nothing here waits for a person's word"
        "GET /api/v1/signers/{signer}/restored lists what waits because the database was restored.";
    RestoreUnread "restore-unread" CONFLICT "It is not known yet what used some nonces before the restore"
        "Wait until the chain has been read and pools have nothing unknown: GET /api/v1/signers/{signer}/restored lists both. Of transactions that the answer names, say of each what became of it. To decide without it, repeat with force: true.";
    RestoreChanged "restore-changed" CONFLICT "The database was restored once more since this was looked at"
        "Look again: GET /api/v1/signers/{signer}/restored shows what waits now, and restoredAt to repeat it with.";
    UpgradeRequired "upgrade-required" UPGRADE_REQUIRED "This path is for WebSockets"
        "Connect with ws:// or wss://; docs/registry.md has the messages. Without a WebSocket, use PUT /api/v1/nodes/{id} and POST …/heartbeat.";
    NodeUnknown "node-unknown" NOT_FOUND "There is no such node, or it was silent for too long"
        "Register it (again): PUT /api/v1/nodes/{id}. GET /api/v1/nodes lists those that live.";
    NodeRemoved "node-removed" CONFLICT "The node was removed, and this comes from before"
        "To come back, register as a new start: leave incarnation out.";
    NodeStale "node-stale" CONFLICT "Something later was heard of this node already"
        "Another process may have its name: give each its own. To take the name, register as a new start: leave incarnation out.";
    NodeReserved "node-reserved" CONFLICT "The node or the pool is Stile's own"
        "Choose another name. Nodes of Stile and endpoints of its chains tell of themselves.";
    NodesFull "nodes-full" TOO_MANY_REQUESTS "No node has a free slot"
        "Come back after Retry-After, or add nodes. The detail says how many refused and why others were not asked.";
    JobOver "job-over" NOT_FOUND "The job has no slot any more"
        "It was completed already, or ran out after registry.job_ttl.";
    ConfigNotFound "config-not-found" NOT_FOUND "There is no configuration of this name"
        "Write it with expectedVersion 0: PUT /api/v1/registry/config/{name}.";
    ConfigConflict "config-conflict" CONFLICT "The configuration is at another version by now"
        "Read it again and decide anew; send the version that you decided by as expectedVersion.";
    RegistryAway "registry-away" SERVICE_UNAVAILABLE "Redis does not answer, and no guess will do"
        "Come back after Retry-After. What is known can still be read, and Stile's own nodes always (pool stile); everything else of Stile goes on without Redis.";
    ShuttingDown "shutting-down" SERVICE_UNAVAILABLE "This node is stopping"
        "Repeat the call at another node, or here after Retry-After.";
    Internal "internal" INTERNAL_SERVER_ERROR "Something went wrong that should not"
        "The log has the details; please report it.";
}

/// The reference page of error codes.
pub fn reference_markdown() -> String {
    let mut page = String::from(
        "# Error codes\n\nEvery error is an `application/problem+json` document (RFC 9457) with a stable `code`.\n\
         Errors that may pass carry `Retry-After` (seconds).\n\n\
         | code | status | meaning | what to do |\n|---|---|---|---|\n",
    );
    for code in Code::ALL {
        let row = format!(
            "| `{}` | {} | {} | {} |\n",
            code.text(),
            code.status().as_u16(),
            code.title(),
            code.hint()
        );
        page.push_str(&row);
    }
    page
}
