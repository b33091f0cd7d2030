//! What waits because the database was restored, and a person's word about it.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use stile_domain::{ChainId, Timestamp};
use stile_engine::{Restoration, RestoreError, Verdict, Word};
use stile_store::{LostTx, RestoreMark, Tx};
use utoipa::ToSchema;

use super::SignerQuery;
use crate::access::Access;
use crate::app::Shared;
use crate::code::Code;
use crate::extract::{self, Parts};
use crate::nonces;
use crate::peers::Whole;
use crate::problem::{Problem, Problems};
use crate::schema;
use crate::tx::read::find;
use crate::tx::view::TxView;

/// What a person says.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum VerdictName {
    /// It was never sent: send it.
    NeverSent,
    /// It was sent before the database was restored: close it.
    WasSent,
}

impl From<VerdictName> for Verdict {
    fn from(name: VerdictName) -> Self {
        match name {
            VerdictName::NeverSent => Self::NeverSent,
            VerdictName::WasSent => Self::WasSent,
        }
    }
}

/// A word about everything that waits on a signer.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RestoredSignerBody {
    /// May be left out while there is one chain.
    #[schema(value_type = Option<schema::GivenChainId>)]
    chain_id: Option<ChainId>,
    /// What you know.
    verdict: VerdictName,
    /// The time of the restore that you mean, as it was shown. If the database was restored once more since,
    /// the word is refused.
    #[schema(value_type = Option<String>, format = DateTime)]
    restored_at: Option<Timestamp>,
    /// Also while it is not known what used some of the nonces from before the restore.
    force: Option<bool>,
}

/// A word about one transaction.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct RestoredTxBody {
    /// What you know.
    verdict: VerdictName,
    /// The time of the restore that you mean, as its signer's page shows it. If the database was restored
    /// once more since, the word is refused.
    #[schema(value_type = Option<String>, format = DateTime)]
    restored_at: Option<Timestamp>,
    /// Also while it is not known what used some of the nonces from before the restore.
    force: Option<bool>,
}

/// What is known of a restore of the database on a signer.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RestoredSigner)]
pub(crate) struct RestoredView {
    /// When the signer was brought into the restored database; null if it never was.
    #[schema(value_type = Option<String>, format = DateTime)]
    restored_at: Option<Timestamp>,
    /// When a person said that what still waited was never sent. Since then only requests wait that do
    /// the same as a transaction that was found and belongs to nobody.
    #[schema(value_type = Option<String>, format = DateTime)]
    settled_at: Option<Timestamp>,
    /// The first nonce that was stepped over.
    from_nonce: Option<u64>,
    /// The first nonce above those.
    to_nonce: Option<u64>,
    /// Whether the signer began only after the restore, as far as the database knows: what it sent below
    /// `fromNonce` may have been sent by the lost history, and is not read.
    begun: bool,
    /// Whether the signer has yet to be held against its chain since the database was restored, or failed
    /// over. What waits is known after that, which takes seconds once an endpoint answers.
    unaligned: bool,
    /// Nonces of which it has not been read from the chain yet what used them, at most 100.
    unread: Vec<u64>,
    /// What an endpoint has in its pool and the database does not know, if anything. It may be what waits.
    pooled: Option<PooledView>,
    /// What the chain has and the restored database did not know.
    found: Vec<FoundView>,
    /// What waits for a person's word, in order of acceptance.
    waiting: Vec<WaitingView>,
}

/// Transactions of the signer in no block that the database does not know.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = PooledTxs)]
struct PooledView {
    /// The endpoint that counts them.
    endpoint: String,
    /// The first of their nonces.
    from_nonce: u64,
    /// The first nonce above them.
    to_nonce: u64,
}

/// A transaction that waits for a person's word.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RestoredTx)]
struct WaitingView {
    #[serde(flatten)]
    tx: TxView,
    /// The transaction on chain that does the same and belongs to nobody, if there is one.
    #[schema(value_type = Option<schema::Hash>)]
    same_as: Option<String>,
    /// Why it waits, in words.
    why: String,
}

/// Why a transaction waits, in a few words.
fn why(same_as: Option<&LostTx>, in_backup: bool) -> String {
    let since = match in_backup {
        true => "it is in the backup, or was handed over before the restore was noticed",
        false => "it was handed over after the restore, perhaps for the second time",
    };
    match same_as {
        Some(LostTx { nonce, claimed_by: Some(tx), .. }) => {
            format!("{since}; on chain nonce {nonce} does the same, and was taken for {tx}")
        }
        Some(lost) => {
            format!("{since}; {} on chain, nonce {}, does the same", lost.hash, lost.nonce)
        }
        None => format!("{since}; nothing that was read from the chain does the same"),
    }
}

/// A transaction on chain that the restored database did not know.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = FoundTx)]
struct FoundView {
    /// Its nonce.
    nonce: u64,
    /// Its hash.
    tx_hash: String,
    /// The block it was found in.
    block_number: u64,
    /// Whom it went to; null for a contract's deployment, and for kinds that Stile does not sign.
    to: Option<String>,
    /// What it carried, in wei; null for kinds that Stile does not sign.
    value: Option<String>,
    /// Call data, or a contract's code; null for kinds that Stile does not sign.
    #[schema(value_type = Option<schema::Bytes>)]
    data: Option<String>,
    /// The transaction that it was sent for, if that is known.
    #[schema(value_type = Option<uuid::Uuid>)]
    tx_id: Option<stile_domain::TxId>,
}

impl From<LostTx> for FoundView {
    fn from(lost: LostTx) -> Self {
        let payload = lost.signed.as_ref().map(|(_, payload)| payload);
        Self {
            nonce: lost.nonce,
            tx_hash: lost.hash.to_string(),
            block_number: lost.block_number,
            to: payload.and_then(|payload| payload.to).map(|to| to.to_string()),
            value: payload.map(|payload| payload.value.to_string()),
            data: payload.map(|payload| payload.data.to_string()),
            tx_id: lost.claimed_by,
        }
    }
}

impl RestoredView {
    fn new(app: &Shared, restoration: Restoration) -> Self {
        let transactions = app.node.transactions();
        let mark: Option<RestoreMark> = restoration.mark;
        let found = &restoration.found;
        let view = |tx: Tx| {
            let same = |lost: &&LostTx| {
                lost.signed.as_ref().is_some_and(|(_, payload)| payload.does_the_same(&tx.payload))
            };
            let same_as = found.iter().filter(|lost| lost.claimed_by.is_none()).find(same);
            WaitingView {
                same_as: same_as.map(|lost| lost.hash.to_string()),
                why: why(
                    same_as.or_else(|| found.iter().find(same)),
                    mark.is_some_and(|mark| tx.created_at < mark.at),
                ),
                tx: TxView::new(transactions, tx),
            }
        };
        let waiting = restoration.waiting.into_iter().map(view).collect();
        let pooled = restoration.pooled.map(|pooled| PooledView {
            endpoint: pooled.endpoint,
            from_nonce: pooled.from,
            to_nonce: pooled.below,
        });
        Self {
            restored_at: mark.map(|mark| mark.at),
            settled_at: mark.and_then(|mark| mark.settled_at),
            from_nonce: mark.map(|mark| mark.from),
            to_nonce: mark.map(|mark| mark.to),
            begun: mark.is_some_and(|mark| mark.begun),
            unaligned: restoration.unaligned,
            unread: restoration.unread,
            pooled,
            found: restoration.found.into_iter().map(FoundView::from).collect(),
            waiting,
        }
    }
}

fn refused(error: RestoreError) -> Problem {
    let detail = error.to_string();
    match error {
        RestoreError::NotFound => Problem::new(Code::TxNotFound, detail),
        RestoreError::NotWaiting(tx) => Problem::new(Code::NotRestored, detail).about(tx.id),
        RestoreError::NotRestored => Problem::new(Code::NotRestored, detail),
        RestoreError::Unread(_)
        | RestoreError::Silent(_)
        | RestoreError::Pooled(_)
        | RestoreError::Found(_)
        | RestoreError::Begun(_) => Problem::new(Code::RestoreUnread, detail),
        RestoreError::LookAgain => Problem::new(Code::RestoreChanged, detail),
        RestoreError::HeldElsewhere => Problem::new(Code::NotHolder, detail),
        RestoreError::Store(error) => error.into(),
    }
}

/// What waits because the database was restored?
///
/// After a restore, what has no nonce may have been sent before: it is sent by itself only once the
/// chain, or a person, has told. This lists what the chain showed and what still waits.
#[utoipa::path(
    get, path = "/api/v1/signers/{signer}/restored", tag = "signers", operation_id = "restored_signer",
    params(("signer" = schema::Address, Path), SignerQuery),
    responses(
        (status = 200, description = "What is known, and what waits", body = RestoredView),
        Problems,
    )
)]
pub(crate) async fn show(
    State(app): State<Shared>,
    access: Access,
    Parts(signer): Parts<String>,
    uri: Uri,
) -> Result<Json<RestoredView>, Problem> {
    let query: SignerQuery = extract::query(&uri)?;
    let lane =
        app.directory.lane(&access, nonces::chain(query.chain_id)?, extract::signer(&signer)?)?;
    let restoration = app.node.lanes().restored(lane).await?;
    Ok(Json(RestoredView::new(&app, restoration)))
}

/// Say what became of everything that waits because the database was restored.
///
/// `never-sent`: all of it is sent, in order, and the signer goes on. What does the same as a
/// transaction that was found on chain and belongs to nobody waits on, for a word of its own.
/// `was-sent`: all of it is closed; what is handed over from now on still waits.
#[utoipa::path(
    post, path = "/api/v1/signers/{signer}/restored", tag = "signers", operation_id = "settle_restored_signer",
    request_body = RestoredSignerBody,
    params(("signer" = schema::Address, Path)),
    responses(
        (status = 200, description = "What is known then, and what still waits", body = RestoredView),
        Problems,
    )
)]
pub(crate) async fn settle(
    State(app): State<Shared>,
    access: Access,
    Parts(signer): Parts<String>,
    Whole { body, original }: Whole<RestoredSignerBody>,
) -> Result<Response, Problem> {
    let lane = app.directory.lane(&access, body.chain_id, extract::signer(&signer)?)?;
    if let Some(answer) = app.by_holder(lane, &original).await {
        return Ok(answer);
    }
    let lanes = app.node.lanes();
    let word = Word {
        verdict: body.verdict.into(),
        restored_at: body.restored_at,
        force: body.force.unwrap_or(false),
        by: &said_by(&access),
    };
    lanes.settle_restored(lane, word).await.map_err(refused)?;
    let restoration = lanes.restored(lane).await?;
    Ok(Json(RestoredView::new(&app, restoration)).into_response())
}

/// Say what became of a transaction that waits because the database was restored.
///
/// `never-sent`: it gets its nonce, in its turn. `was-sent`: if the chain has a transaction that does
/// the same and belongs to nobody, that is it; otherwise it is `FAILED`.
#[utoipa::path(
    post, path = "/api/v1/tx/{txId}/restored", tag = "transactions", operation_id = "settle_restored_tx",
    request_body = RestoredTxBody,
    params(("txId" = Uuid, Path)),
    responses(
        (status = 200, description = "The transaction as it stands then", body = TxView),
        Problems,
    )
)]
pub(crate) async fn settle_tx(
    State(app): State<Shared>,
    access: Access,
    Parts(id): Parts<String>,
    Whole { body, original }: Whole<RestoredTxBody>,
) -> Result<Response, Problem> {
    let tx = find(&app, &access, &id).await?;
    if let Some(answer) = app.by_holder(tx.lane, &original).await {
        return Ok(answer);
    }
    let word = Word {
        verdict: body.verdict.into(),
        restored_at: body.restored_at,
        force: body.force.unwrap_or(false),
        by: &said_by(&access),
    };
    let tx = app.node.lanes().settle_restored_tx(tx.id, word).await.map_err(refused)?;
    Ok(Json(TxView::new(app.node.transactions(), tx)).into_response())
}

/// Whose word it is, as histories name it.
fn said_by(access: &Access) -> String {
    format!("an operator (key {access})")
}
