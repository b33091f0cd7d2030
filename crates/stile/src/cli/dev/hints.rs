//! What to try next.

use std::net::SocketAddr;

use super::super::client::DEFAULT_URL;
use super::settings;

/// What to try next, with the server here and the chain there.
pub(super) fn hints(address: SocketAddr, chain: &str) -> String {
    let [signer, to] = [0, 1].map(|place| settings::signers()[place].address);
    let server = format!("http://{address}");
    let at = if server == DEFAULT_URL { String::new() } else { format!(" --url {server}") };
    format!(
        "\nTry next:\n\
         \x20 curl -s -X POST {server}/api/v1/tx -H 'content-type: application/json' \\\n\
         \x20      -d '{{\"signer\":\"{signer}\",\"requestId\":\"first\",\
         \"payload\":{{\"to\":\"{to}\",\"value\":\"1\"}}}}'\n\
         \x20 stile tx send --signer {signer} --to {to} --value 0.001eth --wait{at}\n\
         \x20 stile tx list{at}\n\
         \x20 cast balance {to} --rpc-url {chain}\n\
         Look at:\n\
         \x20 {server}/       signers and transactions, live\n\
         \x20 {server}/docs   every call of the API\n\
         Ctrl-C stops."
    )
}
