//! What is measured, one function each.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use stile_domain::{ChainId, Lane, parse_address};
use stile_store::raw::{self, AdmissionLimits};

use super::callers::Sender;
use super::chain::{self, Blocks};
use super::report::{Accepted, Footprint, Landed, Report};
use super::site::Site;
use super::{Bench, Call, OPEN_WINDOW, Window};
use crate::cli::Failure;
use crate::cli::bench::load::{self, Caller};

/// How long the node may take to send what it has accepted.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is measured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure {
    pub(super) store: &'static str,
    pub(super) window: Window,
    pub(super) signers: usize,
    pub(super) call: Call,
    pub(super) callers: usize,
    pub(super) limits: AdmissionLimits,
}

impl Figure {
    /// The same rows in bulk by plain SQL.
    fn limit(&self) -> f64 {
        match self.window {
            Window::Default => self.limits.waiting.per_second,
            Window::Open => self.limits.bound.per_second,
        }
    }
}

impl Bench {
    /// How many are taken in, by so many callers.
    pub(super) async fn accepted(
        &self,
        site: &Site,
        figure: Figure,
        history: u64,
    ) -> Result<Accepted, Failure> {
        let before = site.sum("nextNonce").await?;
        let batch = (figure.call == Call::Batch).then_some(self.args.batch);
        let senders = Sender::many(site, figure.callers, batch).await?;
        let seen = load::run(senders, self.each).await?;
        let bound = site.sum("nextNonce").await? - before;
        let waiting = site.sum("queued").await?;
        Ok(Accepted {
            store: figure.store,
            history,
            call: if batch.is_some() { "batch" } else { "one by one" },
            signers: figure.signers,
            callers: figure.callers,
            per_second: seen.per_second,
            p50_ms: seen.p50.as_secs_f64() * 1e3,
            p99_ms: seen.p99.as_secs_f64() * 1e3,
            refused: seen.failed,
            with_nonce: bound as f64 / (bound + waiting).max(1) as f64,
            share_of_raw: seen.per_second / figure.limit(),
        })
    }

    /// From the first call until the chain has the last one in a block.
    pub(super) async fn landed(
        &self,
        store: &'static str,
        url: &str,
        signers: usize,
        raw: Duration,
    ) -> Result<Landed, Failure> {
        let chain = self.chain(Blocks::EverySecond).await?;
        let site = Site::start(url, chain, signers, "").await?;
        let count = self.args.land;
        let senders = Sender::many(&site, 32.min(count), None).await?;
        let begun = Instant::now();
        hand_over(senders, count).await?;
        let accepted = begun.elapsed();
        site.chain.mined(&site.signers, count as u64).await?;
        let mined = begun.elapsed();
        Ok(Landed {
            store,
            signers,
            count,
            accepted_seconds: accepted.as_secs_f64(),
            mined_seconds: mined.as_secs_f64(),
            times_raw: mined.as_secs_f64() / raw.as_secs_f64(),
        })
    }

    /// Start and memory.
    pub(super) async fn footprint(
        &self,
        store: &'static str,
        url: &str,
    ) -> Result<Footprint, Failure> {
        let chain = self.chain(Blocks::Never).await?;
        let site = Site::start(url, chain, 1, OPEN_WINDOW).await?;
        let idle = site.resident()?;
        let count = self.args.in_flight;
        hand_over(Sender::many(&site, 4, Some(self.args.batch)).await?, count).await?;
        let until = Instant::now() + PATIENCE;
        while site.sum("inFlight").await? < count as u64 {
            if Instant::now() > until {
                return Err(format!("{count} transactions were not in flight in time").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(Footprint {
            store,
            history: 0,
            ready_ms: site.ready_after.as_secs_f64() * 1e3,
            idle_megabytes: idle as f64 / 1e6,
            in_flight: count,
            resident_megabytes: site.resident()? as f64 / 1e6,
        })
    }

    /// Start and acceptance on a store that has been at work for long.
    pub(super) async fn with_history(
        &self,
        store: &'static str,
        url: &str,
        limits: AdmissionLimits,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let signers = self.args.signers.iter().copied().max().unwrap_or(1);
        let mut chain = self.chain(Blocks::EverySecond).await?;
        let mut history = 0;
        for account in (0..signers).map(chain::account) {
            let account = account?;
            let lane = Lane::new(ChainId::new(chain::ID)?, parse_address(&account)?);
            let before = history;
            let told = |done| self.step(format!("{store}: {} of history", before + done));
            let count = self.args.history.div_ceil(signers as u64);
            let next = raw::seed_finished(url, lane, count, told).await?;
            chain.set_nonce(&account, next).await?;
            history += count;
        }
        for (place, (call, callers)) in self.ways().enumerate() {
            self.step(format!("{store}: with history"));
            let figure = Figure { store, window: Window::Default, signers, call, callers, limits };
            let site = Site::start(url, chain, signers, "").await?;
            let idle = site.resident()?;
            report.accepted.push(self.accepted(&site, figure, history).await?);
            if place == 0 {
                report.footprint.push(Footprint {
                    store,
                    history,
                    ready_ms: site.ready_after.as_secs_f64() * 1e3,
                    idle_megabytes: idle as f64 / 1e6,
                    in_flight: site.sum("inFlight").await? as usize,
                    resident_megabytes: site.resident()? as f64 / 1e6,
                });
            }
            chain = site.into_chain();
            self.bar.inc(1);
        }
        Ok(())
    }
}

/// Hands over so many, and fails if one is refused.
async fn hand_over(senders: Vec<Sender>, count: usize) -> Result<(), Failure> {
    let begun = AtomicUsize::new(0);
    let handing = senders.into_iter().map(async |mut sender| {
        let step = sender.size();
        while begun.fetch_add(step, Ordering::Relaxed) < count {
            let got = sender.call().await;
            if got.refused > 0 {
                return Err(Failure::from("a transaction was refused"));
            }
        }
        Ok(())
    });
    futures::future::try_join_all(handing).await?;
    Ok(())
}
