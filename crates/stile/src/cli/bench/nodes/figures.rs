//! Distributions.

use serde::Serialize;

/// How long something took, over many times that it happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli::bench) struct Delays {
    pub(in crate::cli::bench) count: usize,
    pub(in crate::cli::bench) median_ms: f64,
    pub(in crate::cli::bench) p90_ms: f64,
    pub(in crate::cli::bench) worst_ms: f64,
}

impl Delays {
    /// Of so many milliseconds each, in any order.
    pub(in crate::cli::bench) fn of(mut each_ms: Vec<f64>) -> Self {
        each_ms.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (each_ms.len() as f64 * share).ceil() as usize;
            each_ms.get(place.saturating_sub(1)).copied().unwrap_or_default()
        };
        Self { count: each_ms.len(), median_ms: at(0.5), p90_ms: at(0.9), worst_ms: at(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::Delays;

    #[test]
    fn a_share_is_reached_by_the_first_that_has_so_many_at_or_below_it() {
        let each = |worst: u32| Delays::of((1..=worst).rev().map(f64::from).collect());
        let ten = Delays { count: 10, median_ms: 5.0, p90_ms: 9.0, worst_ms: 10.0 };
        assert_eq!(each(10), ten);
        assert_eq!(each(1), Delays { count: 1, median_ms: 1.0, p90_ms: 1.0, worst_ms: 1.0 });
        assert_eq!(each(0), Delays::default());
    }
}
