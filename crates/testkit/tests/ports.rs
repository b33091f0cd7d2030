//! Ports are free, and handed out once.

use std::collections::BTreeSet;
use std::net::TcpListener;

use testkit::free_port;

#[test]
fn a_port_is_free_and_comes_once() {
    let ports: BTreeSet<u16> = (0..100).map(|_| free_port()).collect();
    assert_eq!(ports.len(), 100);
    for port in ports {
        TcpListener::bind(("127.0.0.1", port)).expect("nobody listens on it");
    }

    let next = free_port() + 1;
    let _taken = TcpListener::bind(("127.0.0.1", next));
    assert_ne!(free_port(), next, "a port in use is passed over");
}
