//! `stile tx cancel` and `stile tx speed-up`.

use std::collections::HashMap;

use clap::Args;
use serde_json::{Value, json};

use super::{amount, show};
use crate::cli::Failure;
use crate::cli::client::ServerArgs;
use crate::cli::table::{self, text};

#[derive(Debug, Args)]
pub(in crate::cli) struct CancelArgs {
    /// The transaction's id, as `stile tx send` printed it.
    #[arg(value_name = "TX_ID")]
    id: String,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SpeedUpArgs {
    /// The transaction's id, as `stile tx send` printed it.
    #[arg(value_name = "TX_ID")]
    id: String,
    /// The most to pay for a unit of gas: 30gwei, or wei.
    #[arg(long, value_name = "PRICE", value_parser = amount::wei, requires = "max_priority_fee_per_gas")]
    max_fee_per_gas: Option<String>,
    /// The most to pay on top of the base fee: 1gwei, or wei.
    #[arg(long, value_name = "PRICE", value_parser = amount::wei, requires = "max_fee_per_gas")]
    max_priority_fee_per_gas: Option<String>,
    /// The price of a transaction of the old kind.
    #[arg(long, value_name = "PRICE", value_parser = amount::wei, conflicts_with = "max_fee_per_gas")]
    gas_price: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(super) async fn cancel(
    args: CancelArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let client = args.server.client(environment)?;
    let tx = client.post(&format!("{}/cancel", show::path(&args.id)), &json!({})).await?;
    if args.server.json {
        return table::print(&table::json(&tx));
    }
    table::print(&format!("{}\n", cancelled(&tx)))?;
    show::print(&tx, false)
}

fn cancelled(tx: &Value) -> String {
    if tx["state"] == "FAILED" {
        return "It is withdrawn: it had no nonce, and nothing of it was ever sent.".to_owned();
    }
    format!(
        "It has a nonce, so the chain decides: an empty transaction is sent at the same nonce, and \
         whichever is mined first wins.\nFollow it: stile tx watch {}",
        text(&tx["txId"])
    )
}

pub(super) async fn speed_up(
    args: SpeedUpArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let client = args.server.client(environment)?;
    let tx = client.post(&format!("{}/speed-up", show::path(&args.id)), &args.body()).await?;
    if args.server.json {
        return table::print(&table::json(&tx));
    }
    let watch = format!("Follow it: stile tx watch {}", text(&tx["txId"]));
    table::print(&format!("A new attempt that offers more is on its way.\n{watch}\n"))?;
    show::print(&tx, false)
}

impl SpeedUpArgs {
    fn body(&self) -> Value {
        super::object([
            ("maxFeePerGas", self.max_fee_per_gas.clone().map(Value::from)),
            ("maxPriorityFeePerGas", self.max_priority_fee_per_gas.clone().map(Value::from)),
            ("gasPrice", self.gas_price.clone().map(Value::from)),
        ])
    }
}
