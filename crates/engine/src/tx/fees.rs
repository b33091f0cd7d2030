//! What attempts offer, by the policy and within the limits.

use stile_domain::{ChainId, FeeQuote, Fees, Payload};

use crate::core::Core;

impl Core {
    /// What a first attempt offers.
    pub(crate) fn first_fees(&self, chain: ChainId, payload: &Payload, quote: &FeeQuote) -> Fees {
        let settings = &self.settings.tx;
        settings.fees.first(payload, quote, payload.limit(settings.fee_limit(chain)))
    }
}
