use stile_chain::{EndpointReport, UnreadableReport};
use stile_domain::{
    AttemptKind, B256, ChainId, Elsewhere, Fees, HoldId, HoldStatus, SubState, TxId, TxState,
};
use uuid::Uuid;

use super::*;
use crate::care::facts::{
    AgreementFacts, AttemptFacts, GoneFacts, HeadFacts, HoldFacts, HolderFacts, PaceFacts,
    RestoredFacts, TxFacts, UnestimatedFacts,
};

fn endpoint(latest: Option<u64>, knows: Option<bool>) -> EndpointReport {
    EndpointReport {
        endpoint: "node:8545".to_owned(),
        usable: latest.is_some(),
        head: latest.map(|_| 100),
        why: latest.is_none().then(|| "refused the connection".to_owned()),
        latest,
        pending: latest,
        knows,
        read_only: None,
        contradiction: None,
        impossible: Vec::new(),
        unreadable: Vec::new(),
    }
}

/// A lane that has given out nonces below 9, on a chain that waits for nonce 5.
fn facts() -> LaneFacts {
    LaneFacts {
        chain_id: ChainId::new(1).unwrap(),
        chain_id_text: "1".to_owned(),
        signer: "0xf39F…".to_owned(),
        holder: HolderFacts {
            node_id: "a".to_owned(),
            url: None,
            is_this_node: true,
            fencing_token: 1,
            lease_seconds_left: 5.0,
        },
        paused: None,
        paused_by_person: false,
        elsewhere: None,
        aligned: true,
        uncompared: None,
        restored: None,
        lacks_synchronous_standby: false,
        next_nonce: Some(9),
        chain_nonce: Some(5),
        in_flight: 4,
        max_in_flight: 500,
        queued: 2,
        unestimated: Vec::new(),
        can_sign: true,
        signer_trouble: None,
        balance: Some("1000000".to_owned()),
        market_fee_per_gas: Some("10".to_owned()),
        unquoted: None,
        fee_limit: None,
        head: Some(sent(SubState::Pending, 20)),
        gone: None,
        endpoints: vec![endpoint(Some(5), Some(true))],
        receipt_missing: false,
        agreement: None,
        pace: None,
    }
}

#[test]
fn hole_39_a_chain_that_is_shorter_than_on_record_is_found() {
    let gone = |chain_head| GoneFacts { transactions: 3, highest_block: 13, chain_head };
    for (chain_head, words) in [(10, "3 blocks short of that"), (20, "does not have")] {
        let short = LaneFacts { gone: Some(gone(chain_head)), head: None, ..facts() };
        let short = LaneFacts { next_nonce: Some(5), ..short };
        let diagnosis = diagnose(short.clone());
        assert!(!diagnosis.healthy && diagnosis.summary.contains(words), "{}", diagnosis.summary);
        finds(short, "chain-reset", Some("resume"));
    }
}

/// A transaction at nonce 5 that offers so much.
fn sent(sub_state: SubState, gas_price: u128) -> HeadFacts {
    let newest = AttemptFacts {
        kind: AttemptKind::Send,
        tx_hash: B256::ZERO,
        fees: Fees::Legacy { gas_price },
        cost: Some("420000".to_owned()),
        said: None,
    };
    let tx = TxFacts {
        tx_id: TxId(Uuid::nil()),
        state: TxState::Submitted,
        sub_state: Some(sub_state),
        age_seconds: 3.0,
        sends: 1,
        error: Some("no".to_owned()),
        fee_limit: None,
        attempts: 1,
        newest: Some(newest),
    };
    HeadFacts { nonce: 5, hold: None, tx: Some(tx) }
}

fn held(status: HoldStatus) -> HeadFacts {
    let hold = HoldFacts { hold_id: HoldId::fresh(), status, tx_hash: None };
    HeadFacts { nonce: 5, hold: Some(hold), tx: None }
}

/// What is found, the worst first, and what is proposed for it.
fn found(facts: LaneFacts) -> Vec<(String, Option<String>)> {
    let diagnosis = diagnose(facts);
    let pair = |finding: &Finding| {
        (finding.code.clone(), finding.remedy.as_ref().map(|remedy| remedy.kind.clone()))
    };
    diagnosis.findings.iter().map(pair).collect()
}

#[track_caller]
fn finds(facts: LaneFacts, code: &str, remedy: Option<&str>) {
    let found = found(facts);
    let first = found.first().map(|(code, remedy)| (code.as_str(), remedy.as_deref()));
    assert_eq!(first, Some((code, remedy)), "{found:?}");
}

#[test]
fn hole_37_what_cannot_be_read_is_told_with_method_field_and_endpoint() {
    let unread = |method, field: &str, seconds_ago| UnreadableReport {
        method,
        field: field.to_owned(),
        words: format!("something that cannot be understood: missing field `{field}`"),
        count: 7,
        seconds_ago,
        sample: "{}".to_owned(),
    };
    let receipt = unread("eth_getTransactionReceipt", "gasUsed", 3);
    let odd = |unreadable| EndpointReport { unreadable, ..endpoint(Some(5), Some(true)) };
    let with = |endpoints, receipt_missing| LaneFacts { endpoints, receipt_missing, ..facts() };
    let told = diagnose(with(vec![odd(vec![receipt.clone()])], false));
    let finding = told.findings.iter().find(|it| it.code == "unreadable-answer").unwrap();
    for word in ["node:8545", "eth_getTransactionReceipt", "gasUsed", "7"] {
        assert!(finding.words.contains(word), "{}", finding.words);
    }
    assert!(finding.remedy.is_some());
    let (warning, blocked) = (Severity::Warning, Severity::Blocked);
    let fine = || endpoint(Some(5), Some(true));
    let block = unread("eth_getBlockByNumber", "hash", 3);
    let fees = unread("eth_feeHistory", "reward", 3);
    let old = unread("eth_getTransactionReceipt", "gasUsed", 300);
    for (endpoints, missing, severity) in [
        (vec![odd(vec![receipt.clone()])], true, blocked),
        // Nothing waits for it, another endpoint answers properly, or it is long ago.
        (vec![odd(vec![receipt.clone()])], false, warning),
        (vec![odd(vec![receipt.clone()]), fine()], true, warning),
        (vec![odd(vec![old])], true, warning),
        (vec![odd(vec![receipt.clone()]), odd(vec![receipt])], true, blocked),
        // Without blocks nothing is seen; without a history of fees there is a price still.
        (vec![odd(vec![block])], false, blocked),
        (vec![odd(vec![fees])], true, warning),
    ] {
        let found = diagnose(with(endpoints.clone(), missing)).findings;
        let found = found.iter().find(|it| it.code == "unreadable-answer").unwrap();
        assert_eq!(found.severity, severity, "{endpoints:?} {missing}");
    }
    assert!(!found(with(vec![fine()], true)).iter().any(|(code, _)| code == "unreadable-answer"));
}

#[test]
fn hole_37_that_nobody_says_what_gas_costs_is_told() {
    let why = "node:8545: eth_gasPrice: answered with HTTP status 403".to_owned();
    let silent = LaneFacts { unquoted: Some(why), market_fee_per_gas: None, ..facts() };
    for (queued, severity) in [(2, Severity::Blocked), (0, Severity::Warning)] {
        let diagnosis = diagnose(LaneFacts { queued, ..silent.clone() });
        assert_eq!(diagnosis.healthy, queued == 0);
        let found = diagnosis.findings.iter().find(|it| it.code == "no-fee-quote").unwrap();
        assert_eq!(found.severity, severity);
        for word in ["node:8545", "eth_gasPrice", "403", &format!("{queued} transactions")] {
            assert!(found.words.contains(word), "{}", found.words);
        }
    }
    finds(silent, "no-fee-quote", Some("mend-endpoints"));
}

#[test]
fn hole_21_what_waits_for_an_estimate_is_told() {
    let aside = |error: Option<&str>| UnestimatedFacts {
        tx_id: TxId(Uuid::nil()),
        error: error.map(str::to_owned),
    };
    let waits = LaneFacts {
        unestimated: vec![aside(Some("node:8545: no answer in 3s")), aside(None)],
        ..facts()
    };
    finds(waits.clone(), "estimating", Some("estimate-again"));
    let diagnosis = diagnose(waits);
    assert!(diagnosis.healthy, "it holds up nobody");
    let summary = diagnosis.summary;
    assert!(summary.contains("2 transactions") && summary.contains("no answer in 3s"), "{summary}");
}

#[test]
fn a_lane_that_moves_is_healthy() {
    let diagnosis = diagnose(facts());
    assert!(diagnosis.healthy, "{diagnosis:?}");
    assert_eq!(found(facts()), [("waits-for-a-block".to_owned(), None)]);
    let idle = LaneFacts { chain_nonce: Some(9), head: None, queued: 0, ..facts() };
    assert_eq!(found(idle), []);
}

#[test]
fn hole_20_a_lane_that_was_not_compared_says_so() {
    let why = "node:8545: no answer in 3s".to_owned();
    let waits = LaneFacts { uncompared: Some(why), ..facts() };
    finds(waits.clone(), "not-compared", Some("mend-endpoints"));
    let bare = LaneFacts { can_sign: false, ..waits.clone() };
    assert!(diagnose(bare).healthy, "bare nonces go on");
    let diagnosis = diagnose(waits);
    assert!(!diagnosis.healthy);
    assert!(diagnosis.summary.contains("node:8545"), "{}", diagnosis.summary);
}

#[test]
fn whatever_stops_a_lane_has_a_name_and_a_remedy() {
    let with = |head: HeadFacts| LaneFacts { head: Some(head), ..facts() };
    finds(with(sent(SubState::Pending, 9)), "underpriced", Some("bump"));
    finds(with(sent(SubState::InsufficientFunds, 20)), "insufficient-funds", Some("fund"));
    finds(with(sent(SubState::Rejected, 20)), "rejected", Some("give-up"));
    let dropped = vec![endpoint(Some(5), Some(false))];
    finds(LaneFacts { endpoints: dropped, ..facts() }, "dropped", Some("resend"));
    let silent = LaneFacts { endpoints: vec![endpoint(None, None)], chain_nonce: None, ..facts() };
    finds(LaneFacts { head: None, ..silent }, "no-endpoint", Some("mend-endpoints"));
    finds(
        LaneFacts { chain_nonce: Some(12), head: None, ..facts() },
        "outside-use",
        Some("resume"),
    );
    let mut lost = sent(SubState::Pending, 20);
    lost.tx.as_mut().unwrap().state = TxState::Confirmed;
    finds(with(lost), "chain-reset", Some("resume"));
    finds(with(HeadFacts { nonce: 5, hold: None, tx: None }), "gap", Some("fill"));
    // After a restore it is filled if nobody has it, else once a person has settled the signer.
    let open = RestoredFacts {
        open: true,
        begun: false,
        waiting: 0,
        tx_ids: Vec::new(),
        unread: 0,
        pooled_at: None,
        unclaimed: 0,
    };
    let gap = with(HeadFacts { nonce: 5, hold: None, tx: None });
    finds(LaneFacts { restored: Some(open), ..gap }, "gap", Some("restored"));
    finds(with(held(HoldStatus::Suspect)), "suspect-hold", Some("attest"));
    finds(with(held(HoldStatus::Consumed)), "silent-hold", Some("ask-the-caller"));
    let restored = LaneFacts { aligned: false, chain_nonce: Some(12), head: None, ..facts() };
    finds(restored, "unaligned", Some("wait"));
    let moved = LaneFacts { elsewhere: Some(Elsewhere::V1), ..facts() };
    finds(moved, "not-owned", Some("give-the-lane-to-stile"));
    let paused = LaneFacts { paused: Some("key rotation".to_owned()), ..facts() };
    finds(paused.clone(), "paused", Some("resume"));
    let by_person = LaneFacts { paused_by_person: true, ..paused };
    finds(by_person, "paused", Some("resume-by-hand"));
    let down = LaneFacts { signer_trouble: Some("refused".to_owned()), ..facts() };
    finds(down, "signer-unavailable", Some("mend-signer"));
    let mut nobody = facts();
    nobody.holder.lease_seconds_left = 0.0;
    finds(nobody, "no-holder", Some("start-a-node"));
}

#[test]
fn a_limit_that_is_reached_is_a_persons_to_raise() {
    let mut head = sent(SubState::Underpriced, 9);
    head.tx.as_mut().unwrap().fee_limit = Some("9".to_owned());
    finds(LaneFacts { head: Some(head), ..facts() }, "underpriced", Some("speed-up"));
    let capped = LaneFacts { fee_limit: Some("10".to_owned()), ..facts() };
    let capped = LaneFacts { head: Some(sent(SubState::Underpriced, 9)), ..capped };
    finds(capped, "underpriced", Some("speed-up"));
}

#[test]
fn nothing_is_attested_by_itself() {
    let suspect = LaneFacts { head: Some(held(HoldStatus::Suspect)), ..facts() };
    let diagnosis = diagnose(suspect);
    let remedy = diagnosis.findings[0].remedy.clone().unwrap();
    assert!(remedy.needs_attestation && !remedy.automatic, "{remedy:?}");
}

#[test]
fn the_worst_comes_first_and_is_the_summary() {
    let mut both = facts();
    both.head = Some(sent(SubState::Pending, 9));
    both.endpoints.push(endpoint(None, None));
    let diagnosis = diagnose(both);
    let severities: Vec<Severity> = diagnosis.findings.iter().map(|one| one.severity).collect();
    assert!(severities.is_sorted(), "{severities:?}");
    assert_eq!(diagnosis.summary, diagnosis.findings[0].words);
    assert!(!diagnosis.healthy);
}

fn withheld(why: &'static str, seconds: f64) -> Option<AgreementFacts> {
    Some(AgreementFacts {
        configured: 3,
        required: 2,
        withheld: Some(why),
        withheld_seconds: Some(seconds),
        words: Some("they differ".to_owned()),
    })
}

#[test]
fn hole_37_what_an_endpoint_cannot_do_is_named() {
    let old = EndpointReport {
        impossible: vec!["finality `safe`", "finality `finalized`"],
        ..endpoint(Some(5), Some(true))
    };
    let diagnosis = diagnose(LaneFacts { endpoints: vec![old], ..facts() });
    let named = diagnosis.findings.iter().find(|finding| finding.code == "endpoint-lacks").unwrap();
    assert_eq!(named.severity, Severity::Info);
    let words = "what an endpoint of chain 1 makes impossible: node:8545: finality `safe`; finality `finalized`";
    assert_eq!(named.words, words);
    let well = diagnose(LaneFacts { endpoints: vec![endpoint(Some(5), Some(true))], ..facts() });
    assert!(well.findings.iter().all(|finding| finding.code != "endpoint-lacks"));
}

#[test]
fn hole_23_whoever_contradicts_is_named_and_so_is_what_waits() {
    let liar = EndpointReport {
        contradiction: Some("claims block 1005, which no other endpoint has".to_owned()),
        ..endpoint(Some(5), Some(true))
    };
    let facts = LaneFacts { endpoints: vec![liar], ..facts() };
    let found = diagnose(facts.clone()).findings;
    let named = found.iter().find(|finding| finding.code == "endpoint-contradicts").unwrap();
    assert_eq!(named.words, "endpoint node:8545 claims block 1005, which no other endpoint has");
    for (why, code) in
        [("contradicted", "endpoints-contradict"), ("too-few-voters", "too-few-voters")]
    {
        let short = LaneFacts { agreement: withheld(why, 1.0), ..facts.clone() };
        assert!(!diagnose(short).findings.iter().any(|finding| finding.code == code));
        let long = diagnose(LaneFacts { agreement: withheld(why, 60.0), ..facts.clone() });
        assert!(!long.healthy);
        assert_eq!(long.findings[0].code, code);
        assert_eq!(long.summary, "nothing is confirmed on chain 1: they differ");
    }
}

#[test]
fn hole_38_a_chain_that_makes_no_blocks_is_as_bad_as_what_waits_for_one() {
    let still = PaceFacts {
        standstill_seconds: Some(45.0),
        usual_seconds: Some(2.0),
        ..PaceFacts::default()
    };
    let idle = LaneFacts { in_flight: 0, queued: 0, chain_nonce: Some(9), head: None, ..facts() };
    let long = PaceFacts { is_long: true, ..still.clone() };
    let on_demand = PaceFacts { is_on_demand: true, ..PaceFacts::default() };
    let buried = PaceFacts { unconfirmed: 1, unburied: 1, ..on_demand.clone() };
    let table = [
        (facts(), still.clone(), "chain-stalled", Severity::Warning, "every 2 s; 6 transactions"),
        (facts(), long.clone(), "chain-stalled", Severity::Blocked, "no block for 45 s"),
        (idle.clone(), long, "chain-stalled", Severity::Info, "no block for 45 s"),
        (idle.clone(), on_demand, "mines-on-demand", Severity::Info, "only when it has"),
        (idle, buried, "mines-on-demand", Severity::Warning, "1 transactions"),
    ];
    for (facts, pace, code, severity, part) in table {
        let found = diagnose(LaneFacts { pace: Some(pace), ..facts }).findings;
        let finding = found.iter().find(|finding| finding.code == code).unwrap();
        assert_eq!(finding.severity, severity, "{finding:?}");
        assert!(finding.words.contains(part), "{finding:?}");
    }
}
