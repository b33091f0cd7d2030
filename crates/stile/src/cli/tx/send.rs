//! `stile tx send`.

use std::collections::HashMap;

use clap::Args;
use serde_json::{Value, json};
use stile_domain::parse_address;

use super::{amount, object, show, watch};
use crate::cli::Failure;
use crate::cli::client::ServerArgs;

#[derive(Debug, Args)]
pub(in crate::cli) struct SendArgs {
    /// The account that sends it.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    signer: String,
    /// Whom it goes to; leave it out to deploy the contract in --data.
    #[arg(long, value_name = "ADDRESS", value_parser = address, required_unless_present = "data")]
    to: Option<String>,
    /// What it carries: 1eth, 0.5eth, 20gwei, or wei.
    #[arg(long, value_parser = amount::wei)]
    value: Option<String>,
    /// Call data, or a contract's code, as 0x and hexadecimal digits.
    #[arg(long, value_name = "0x…")]
    data: Option<String>,
    /// The most gas it may use; estimated if left out.
    #[arg(long, value_name = "GAS")]
    gas_limit: Option<u64>,
    /// The most to pay for a unit of gas: 30gwei, or wei.
    #[arg(long, value_name = "PRICE", value_parser = amount::wei)]
    max_fee_per_gas: Option<String>,
    /// The most to pay on top of the base fee: 1gwei, or wei.
    #[arg(long, value_name = "PRICE", value_parser = amount::wei)]
    max_priority_fee_per_gas: Option<String>,
    /// Send a transaction of the old kind, at this price.
    #[arg(long, value_name = "PRICE", value_parser = amount::wei)]
    gas_price: Option<String>,
    /// The most that any attempt may offer for a unit of gas: 100gwei, or wei.
    #[arg(long, value_name = "PRICE", value_parser = amount::wei)]
    fee_limit: Option<String>,
    /// Make it anew, as another transaction, if somebody else's takes its nonce.
    #[arg(long)]
    resend_if_replaced: bool,
    /// May be left out while the server has one chain.
    #[arg(long)]
    chain_id: Option<u64>,
    /// Your own name for it: sending again under the same name changes nothing.
    #[arg(long, value_name = "TEXT")]
    request_id: Option<String>,
    /// When it counts as done: a number of blocks on top of its own (0: mined is enough), safe or
    /// finalized.
    #[arg(long, value_parser = amount::finality)]
    finality: Option<Value>,
    /// Wait until it is done. Succeeds only if the transaction does.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    server: ServerArgs,
}

fn address(text: &str) -> Result<String, String> {
    parse_address(text).map(|address| address.to_string()).map_err(|error| error.to_string())
}

pub(super) async fn send(
    args: SendArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let client = args.server.client(environment)?;
    let tx = client.post("/api/v1/tx", &args.body()).await?;
    if args.wait {
        let tx = watch::until_done(&client, tx).await?;
        show::print(&tx, args.server.json)?;
        return watch::verdict(&tx);
    }
    show::print(&tx, args.server.json)
}

impl SendArgs {
    fn body(&self) -> Value {
        let payload = object([
            ("to", self.to.clone().map(Value::from)),
            ("value", self.value.clone().map(Value::from)),
            ("data", self.data.clone().map(Value::from)),
            ("gasLimit", self.gas_limit.map(|gas| json!(gas.to_string()))),
            ("maxFeePerGas", self.max_fee_per_gas.clone().map(Value::from)),
            ("maxPriorityFeePerGas", self.max_priority_fee_per_gas.clone().map(Value::from)),
            ("gasPrice", self.gas_price.clone().map(Value::from)),
            ("feeLimit", self.fee_limit.clone().map(Value::from)),
            ("resendIfReplaced", self.resend_if_replaced.then_some(json!(true))),
        ]);
        object([
            ("chainId", self.chain_id.map(Value::from)),
            ("signer", Some(json!(self.signer))),
            ("requestId", self.request_id.clone().map(Value::from)),
            ("payload", Some(payload)),
            ("finality", self.finality.clone()),
        ])
    }
}
