//! How many connections there are, in all and from each address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::measure;

/// Where a connection comes from, as it is counted: the address, or the network of 2⁶⁴ addresses that
/// whoever has one IPv6 address has.
pub(crate) fn source(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)).into(),
        address => address,
    }
}

/// The connections there may be.
#[derive(Debug)]
pub(super) struct Slots {
    most: usize,
    most_per_address: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// Why there is no room for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    All,
    Address,
}

impl Full {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Address => "address",
        }
    }
}

/// The place of one connection. Dropped, it is free.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Arc<Slots>,
    from: IpAddr,
}

impl Slots {
    pub(super) fn new(most: usize, most_per_address: usize) -> Arc<Self> {
        Arc::new(Self { most, most_per_address, taken: Mutex::default() })
    }

    /// Takes a place.
    pub(super) fn take(self: &Arc<Self>, from: IpAddr) -> Result<Slot, Full> {
        let from = source(from);
        let mut taken = self.lock();
        if taken.all >= self.most {
            return Err(Full::All);
        }
        let here = taken.by_address.entry(from).or_default();
        if *here >= self.most_per_address {
            return Err(Full::Address);
        }
        *here += 1;
        taken.all += 1;
        measure::connections(taken.all);
        Ok(Slot { slots: Arc::clone(self), from })
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.lock();
        taken.all -= 1;
        measure::connections(taken.all);
        if let Entry::Occupied(mut here) = taken.by_address.entry(self.from) {
            *here.get_mut() -= 1;
            if *here.get() == 0 {
                here.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_all() {
        let slots = Slots::new(3, 2);
        let (one, other): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let held = [slots.take(one).unwrap(), slots.take(one).unwrap()];
        assert_eq!(slots.take(one).unwrap_err(), Full::Address);
        let third = slots.take(other).unwrap();
        assert_eq!(slots.take(other).unwrap_err(), Full::All);
        drop(held);
        drop(slots.take(one).unwrap());
        drop(third);
        let taken = slots.lock();
        assert_eq!((taken.all, taken.by_address.len()), (0, 0));
    }

    #[test]
    fn whoever_has_an_ipv6_address_has_a_network() {
        for (address, counted) in [
            ("10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
            ("::1", "::"),
        ] {
            let expected: IpAddr = counted.parse().unwrap();
            assert_eq!(source(address.parse().unwrap()), expected, "{address}");
        }
    }
}
