//! What attempts offer, by the policy and within the limits.

use stile_chain::FeeQuotes;
use stile_domain::{Capped, Ceiling, ChainId, FeeQuote, Fees, Payload, first_offer};

use crate::core::Core;

impl Core {
    /// The most that an attempt of any kind may offer, where the chain asks for this.
    pub(crate) fn ceiling(&self, chain: ChainId, quote: Option<&FeeQuote>) -> Ceiling {
        Ceiling::new(self.settings.tx.fee_limit(chain), quote)
    }

    /// The same, by what several endpoints say. Of two that differ, one may be out of its mind, either
    /// way: where somebody else than an endpoint `vouches` for a high price, it is the higher word.
    pub(crate) fn ceiling_by(
        &self,
        chain: ChainId,
        quotes: Option<&FeeQuotes>,
        vouches: bool,
    ) -> Ceiling {
        self.ceiling(chain, quotes.map(|quotes| word(quotes, vouches)))
    }

    /// What a first attempt offers. Prices that were taken when the limit was higher are cut: their
    /// callers are ready to pay more than that. `None` if it depends on what the chain asks for, and
    /// nobody says.
    pub(crate) fn first_fees(
        &self,
        chain: ChainId,
        payload: &Payload,
        quotes: Option<&FeeQuotes>,
    ) -> Option<Capped> {
        let ceiling = self.ceiling_by(chain, quotes, payload.stated_price().is_some());
        let Some(quote) = quotes.map(|quotes| &quotes.offered) else {
            let given = Fees::given(payload)?;
            return match ceiling.is_known() {
                true => Some(ceiling.cut(given)),
                false => ceiling.admit(given).ok(),
            };
        };
        Some(ceiling.cut(first_offer(&*self.settings.tx.fees, payload, quote, ceiling.limit())))
    }
}

/// The word by which a limit is made that nobody has set.
fn word(quotes: &FeeQuotes, vouches: bool) -> &FeeQuote {
    if vouches { &quotes.highest } else { &quotes.offered }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of two endpoints one quotes a wei, and the chain is dearer than the least limit.
    #[test]
    fn hole_42_one_low_quote_of_two_does_not_keep_honest_prices_out() {
        let market = |base_fee| FeeQuote::Market { base_fee, priority_fee: 1 };
        let dear = 300_000_000_000;
        let quotes = FeeQuotes { offered: market(1), highest: market(dear), is_alone: false };
        let limit = |vouches| Ceiling::new(None, Some(word(&quotes, vouches))).limit();
        assert_eq!(limit(false), 100_000_000_000, "what an endpoint alone says drives nothing up");
        assert_eq!(limit(true), (2 * dear + 1) * 10);
        assert_eq!(Ceiling::new(Some(7), Some(word(&quotes, true))).limit(), 7, "a limit is one");
    }
}
