//! When a call is passed on, taken here or refused.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use stile_domain::{Holder, Lane};
use stile_engine::NonceError;
use stile_store::StoreError;

use super::NotHolder;
use super::forward::{Answer, NoAnswer, Peer, TIMEOUT};
use super::original::Original;
use crate::app::Served;
use crate::code::Code;
use crate::problem::Problem;

/// How often a call is tried, here and at the holder, while its lane moves: until long after a lane
/// that has run out is no longer left to the node that it had best be on.
const TRIES_WHILE_IT_MOVES: u32 = 6;

/// How often a call is tried whose lane's holder is not there.
const TRIES_IF_ABSENT: u32 = 4;

/// The pause between two tries; it doubles.
const PAUSE: Duration = Duration::from_millis(50);

/// How old the news of who holds a lane may be where transactions are passed on: whoever gets them
/// takes them, holder or not.
const PASSED_ON_WITHIN: Duration = Duration::from_secs(10);

/// How old it may be where they are refused.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);

impl Served {
    /// Does here what only a lane's holder can do, and passes it on if this node is not it. While
    /// the lane moves it is tried again; nothing was done before by whoever answers that it has
    /// moved.
    pub(crate) async fn at_holder<T: IntoResponse, Doing>(
        &self,
        lane: Lane,
        original: &Original,
        here: impl Fn() -> Doing,
    ) -> Result<Response, Problem>
    where
        Doing: Future<Output = Result<T, NonceError>>,
    {
        let mut pause = PAUSE;
        let mut tries = 1;
        loop {
            let error = match here().await {
                Ok(done) => return Ok(done.into_response()),
                Err(error) => error,
            };
            let (last, most) = match self.way(original, owner(&error)).await? {
                Way::Here => return Err(error.into()),
                // It starts or stops just now: before long the database knows it, or the lane moves.
                Way::Unknown(url) => (Err(unreachable(&url)), TRIES_IF_ABSENT),
                Way::To(peer) => match self.pass_on(&peer, original).await {
                    Ok(answer) if answer.has_moved() => {
                        (Ok(answer.into_response()), TRIES_WHILE_IT_MOVES)
                    }
                    Ok(answer) => return Ok(answer.into_response()),
                    Err(NoAnswer::Absent) => (Err(unreachable(peer.url())), TRIES_IF_ABSENT),
                    Err(NoAnswer::Silent) => return Err(unreachable(peer.url())),
                    // The caller may have more luck there.
                    Err(NoAnswer::Refused) => return Err(error.into()),
                },
            };
            if tries >= most {
                return last;
            }
            tries += 1;
            self.node.nonces().ask_again(lane);
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Where a call goes that another node should have. Only a node that the database knows gets it,
    /// whatever is written on the lane.
    async fn way(&self, original: &Original, owner: Option<Holder>) -> Result<Way, StoreError> {
        let Some(owner) = owner else { return Ok(Way::Here) };
        if !self.forwarder.may_pass_on(original, self.guard.is_open()) {
            return Ok(Way::Here);
        }
        let Some(peer) = self.forwarder.peer(owner.clone()) else { return Ok(Way::Here) };
        let known = self.node.router().knows(&owner).await?;
        Ok(if known { Way::To(peer) } else { Way::Unknown(peer.url().to_owned()) })
    }

    async fn pass_on(&self, peer: &Peer, original: &Original) -> Result<Answer, NoAnswer> {
        self.forwarder.pass_on(peer, original, self.node.router().time()).await
    }

    /// What becomes of a transaction whose lane may be another node's: `None` if it is taken here,
    /// else the holder's answer, or a refusal. Nobody is asked where all are taken anyway.
    pub(crate) async fn instead_of_accepting(
        &self,
        lane: Lane,
        request_id: Option<&str>,
        original: &Original,
    ) -> Result<Option<Response>, Problem> {
        let mode = self.forwarder.not_holder();
        if mode == NotHolder::Accept || original.passed_on {
            return Ok(None);
        }
        let transactions = self.node.transactions();
        if mode == NotHolder::Reject {
            return match self.refusal(lane, request_id).await? {
                Some(problem) => Err(problem),
                None => Ok(None),
            };
        }
        let held = transactions.held_elsewhere(lane, PASSED_ON_WITHIN).await?;
        let Some(owner) = held else { return Ok(None) };
        let Way::To(peer) = self.way(original, Some(owner.holder())).await? else {
            return Ok(None);
        };
        match self.pass_on(&peer, original).await {
            Ok(answer) => Ok(Some(answer.into_response())),
            // It has not heard of it, or the name of the request makes sure that it lands once.
            Err(NoAnswer::Silent) if request_id.is_none() => Err(unreachable(peer.url())),
            Err(_) => {
                self.node.nonces().ask_again(lane);
                Ok(None)
            }
        }
    }

    /// Where transactions of a lane are passed on to; `None` if they are taken here.
    pub(crate) async fn way_to(
        &self,
        lane: Lane,
        original: &Original,
    ) -> Result<Option<Peer>, Problem> {
        let owner = self.node.transactions().held_elsewhere(lane, PASSED_ON_WITHIN).await?;
        match self.way(original, owner.map(|owner| owner.holder())).await? {
            Way::To(peer) => Ok(Some(peer)),
            Way::Here | Way::Unknown(_) => Ok(None),
        }
    }

    /// Passes a part of a batch on, with an answer for each. Otherwise, `Some` of where it went if
    /// the other node may have taken it, `None` if it has not.
    pub(crate) async fn part_of_batch(
        &self,
        peer: &Peer,
        part: &[&RawValue],
        original: &Original,
    ) -> Result<Vec<Box<RawValue>>, Option<String>> {
        let silent = || Some(peer.url().to_owned());
        let body = serde_json::to_vec(&Batch { items: part.to_vec() }).map_err(|_| None)?;
        let original = Original { body: body.into(), ..original.clone() };
        let answer = self.pass_on(peer, &original).await;
        let answer = answer.map_err(|why| if why == NoAnswer::Silent { silent() } else { None })?;
        if answer.refuses_the_key() {
            return Err(None);
        }
        let answers: Option<Batch<Box<RawValue>>> = answer.read();
        let answers = answers.map(|batch| batch.items).filter(|items| items.len() == part.len());
        answers.ok_or_else(silent)
    }

    pub(crate) fn unreachable(&self, url: &str) -> Problem {
        unreachable(url)
    }

    /// Why a transaction is not taken here where only holders take them: another node holds its
    /// lane, and it was not taken before.
    pub(crate) async fn refusal(
        &self,
        lane: Lane,
        request_id: Option<&str>,
    ) -> Result<Option<Problem>, Problem> {
        let transactions = self.node.transactions();
        if let Some(id) = request_id
            && transactions.by_request(crate::nonces::TENANT, lane, id).await?.is_some()
        {
            return Ok(None);
        }
        let owner = transactions.held_elsewhere(lane, REFUSED_WITHIN).await?;
        let refused = owner.map(|owner| NonceError::NotHolder { lane, owner: Box::new(owner) });
        Ok(refused.map(Problem::from))
    }

    /// Passes an operator's order on to whoever holds the lane, if that is another node that
    /// answers. `None`: it is carried out here, as far as that can be done.
    pub(crate) async fn by_holder(&self, lane: Lane, original: &Original) -> Option<Response> {
        let route = self.node.router().route(lane).await.ok()?;
        let holder = route.holder.filter(|holder| holder.node != *self.node.id())?;
        let Ok(Way::To(peer)) = self.way(original, Some(holder)).await else { return None };
        let answer = self.pass_on(&peer, original).await.ok()?;
        (!answer.has_moved()).then(|| answer.into_response())
    }
}

/// Where a call goes.
enum Way {
    /// It stays here.
    Here,
    /// To this node.
    To(Peer),
    /// To a node at this URL that the database does not know.
    Unknown(String),
}

/// A batch, or the answer to one.
#[derive(Serialize, Deserialize)]
struct Batch<I> {
    items: Vec<I>,
}

/// Who has the lane, if that is why a call failed.
fn owner(error: &NonceError) -> Option<Holder> {
    match error {
        NonceError::NotHolder { owner, .. } | NonceError::Fenced { owner, .. } => {
            Some(owner.holder())
        }
        _ => None,
    }
}

fn unreachable(url: &str) -> Problem {
    let detail =
        format!("the node at {url} holds the lane and does not answer, in {TIMEOUT:?} at most");
    Problem::new(Code::HolderUnreachable, detail).retry_after(Some(Duration::from_secs(1)))
}
