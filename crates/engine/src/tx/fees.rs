//! What attempts offer, by the policy and within the limits.

use stile_domain::{Capped, Ceiling, ChainId, FeeQuote, Fees, Payload};

use crate::core::Core;

impl Core {
    /// The most that an attempt of any kind may offer, where the chain asks for this.
    pub(crate) fn ceiling(&self, chain: ChainId, quote: Option<&FeeQuote>) -> Ceiling {
        Ceiling::new(self.settings.tx.fee_limit(chain), quote)
    }

    /// What a first attempt offers. Prices that were taken when the limit was higher are cut: their
    /// callers are ready to pay more than that. `None` if it depends on what the chain asks for, and
    /// nobody says.
    pub(crate) fn first_fees(
        &self,
        chain: ChainId,
        payload: &Payload,
        quote: Option<&FeeQuote>,
    ) -> Option<Capped> {
        let ceiling = self.ceiling(chain, quote);
        let Some(quote) = quote else {
            let given = Fees::given(payload)?;
            return match ceiling.is_known() {
                true => Some(ceiling.cut(given)),
                false => ceiling.admit(given).ok(),
            };
        };
        let limit = payload.limit(ceiling.limit());
        Some(ceiling.cut(self.settings.tx.fees.first(payload, quote, limit)))
    }
}
