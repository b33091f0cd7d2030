//! Ports to listen on.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the range from which Linux and macOS take ports for outgoing connections. A server that
/// stops and comes back on such a port does not find it taken by somebody's client in between.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port on 127.0.0.1 that nothing listens on, different at every call of this process.
///
/// Another process may still take it before it is used, so whoever starts a server on it must be
/// ready to try another; test processes start at different places of the range to make that rare.
/// Panics if every port of the range is taken.
pub fn free_port() -> u16 {
    static OFFSET: AtomicU16 = AtomicU16::new(0);
    let place_of_this_process = (u64::from(std::process::id()) * 7_919) % u64::from(COUNT);
    (0..COUNT)
        .map(|_| {
            let offset = u64::from(OFFSET.fetch_add(1, Ordering::Relaxed));
            FIRST + u16::try_from((place_of_this_process + offset) % u64::from(COUNT)).unwrap()
        })
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .expect("a free port between 20000 and 31999")
}
