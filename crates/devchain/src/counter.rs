//! A small contract to play with, assembled by hand: a counter.
//!
//! ```solidity
//! event Incremented(address indexed by, uint256 count);
//! function count() view returns (uint256);
//! function increment();                  // adds 1 and says so by an event
//! function fail();                       // reverts: "no luck"
//! ```

use alloy_primitives::{B256, b256, hex};

/// The data of the transaction that deploys it.
pub const CREATION: &[u8] = &hex!(
    "60948060095f395ff3" // copies what follows and returns it: that becomes the contract
    "60003560e01c" // the selector
    "806306661abd14602957" // count()
    "8063d09de08a14603557" // increment()
    "8063a9cc471814606b57" // fail()
    "60006000fd" // anything else
    "5b60005460005260206000f3" // returns slot 0
    "5b60005460010180600055600052" // adds 1 to slot 0
    "337f38ac789ed44572701765277c4d0970f2db1c1a571ed39e84358095ae4eaa542060206000a200"
    "5b6308c379a060e01b60005260206004526007602452666e6f206c75636b60c81b60445260646000fd"
);

/// The data of a call of `count()`.
pub const COUNT: [u8; 4] = hex!("06661abd");

/// The data of a call of `increment()`.
pub const INCREMENT: [u8; 4] = hex!("d09de08a");

/// The data of a call of `fail()`.
pub const FAIL: [u8; 4] = hex!("a9cc4718");

/// The first topic of `Incremented`.
pub const INCREMENTED: B256 =
    b256!("0x38ac789ed44572701765277c4d0970f2db1c1a571ed39e84358095ae4eaa5420");
